"""One look at the registries: which releases of the model does fresh, verified metadata name?"""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from edge.updates.registry import Registry
from edge.updates.release import Release
from shared.trust.first_fresh import Refreshes, first_fresh
from shared.trust.pinned_root import read_pinned_root

_LOOK_S_MAX = 300.0


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
    return read_pinned_root(path, "updates.root")
