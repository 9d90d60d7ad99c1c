"""One look at the registries: which releases of the model does fresh, verified metadata name?"""

from collections.abc import Callable
from datetime import datetime

from edge.updates.registry_client import RegistryClient
from edge.updates.release import Release
from shared.trust.first_fresh import Refreshes, first_fresh

_LOOK_S_MAX = 300.0


async def look(
    registry: RegistryClient, trust: Refreshes, model: str, now: Callable[[], datetime]
) -> tuple[Release, ...]:
    """From the first registry whose metadata checks out and is fresh. Raises what the last said."""
    sources = ((url, registry.metadata_from(url)) for url in registry.urls)
    trusted = await first_fresh(trust, sources, model, now, s_max=_LOOK_S_MAX)
    return tuple(
        Release(r.version, r.manifest_sha256, r.manifest_bytes, r.number) for r in trusted.releases
    )
