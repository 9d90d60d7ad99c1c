"""One look at the registries: which releases of the model does fresh, verified metadata name?"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from edge.updates.registry import Registry
from edge.updates.release import Release
from shared.errors import Malformed
from shared.trust.first_fresh import Refreshes, first_fresh

_LOOK_S_MAX = 300.0
_ROOT_BYTES_MAX = 64 * 1024


async def look(
    registry: Registry, trust: Refreshes, model: str, now: Callable[[], datetime]
) -> tuple[Release, ...]:
    """From the first registry whose metadata checks out and is fresh. Raises what the last said."""
    sources = ((url, registry.metadata_from(url)) for url in registry.urls)
    trusted = await first_fresh(trust, sources, model, now, s_max=_LOOK_S_MAX)
    return tuple(
        Release(r.version, r.manifest_sha256, r.manifest_bytes, r.number) for r in trusted.releases
    )


def pinned_root(path: Path) -> bytes:
    """The root of trust that the device was set up with. Blocking. Raises `Malformed`."""
    try:
        with path.open("rb") as file:
            content = file.read(_ROOT_BYTES_MAX + 1)
    except OSError as error:
        raise Malformed(
            f"updates.root {path}: {error.strerror}; put the registry's 1.root.json there"
        ) from error
    if len(content) > _ROOT_BYTES_MAX:
        raise Malformed(f"updates.root {path}: over {_ROOT_BYTES_MAX} bytes; is it a root.json?")
    return content
