"""One look at the registries: which releases of the model does fresh, verified metadata name?"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from edge.updates.registry import Registry
from edge.updates.release import Release
from shared.errors import Disconnected, HybridgeError, Malformed, NotTrusted
from shared.trust.releases import Trusted
from shared.trust.store import Fetch

_LOOK_S_MAX = 300.0
_ROOT_BYTES_MAX = 64 * 1024


class Trust(Protocol):
    """`shared.trust.store.TrustStore`."""

    async def refresh(self, fetch: Fetch, model: str, now: datetime) -> Trusted: ...


async def look(
    registry: Registry, trust: Trust, model: str, now: Callable[[], datetime]
) -> tuple[Release, ...]:
    """From the first registry whose metadata checks out and is fresh. Raises what the last said."""
    last: HybridgeError = Disconnected("no registry to look at; name one in updates.urls")
    for url in registry.urls:
        try:
            async with asyncio.timeout(_LOOK_S_MAX):
                trusted = await trust.refresh(registry.metadata_from(url), model, now())
            if trusted.stale is not None:
                raise NotTrusted(f"{url}: {trusted.stale}")
        except TimeoutError:
            last = Disconnected(f"{url}: its metadata did not come within {_LOOK_S_MAX:.0f} s")
        except HybridgeError as error:
            last = error
        else:
            return tuple(
                Release(r.version, r.manifest_sha256, r.manifest_bytes, r.number)
                for r in trusted.releases
            )
    raise last


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
