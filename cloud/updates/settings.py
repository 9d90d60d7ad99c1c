"""The `registry` part of the cloud's settings."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from shared.bundle.manifest import Name
from shared.config import Count, Positive
from shared.fetching.settings import Server
from shared.trust.pinned_root import read_pinned_root


class RegistryModels(Server):
    """Which models come from the registry, and what vouches for them."""

    models: Annotated[tuple[Name, ...], Field(min_length=1, max_length=64)]
    """Each is served in its newest release, beside the bundles of `models`."""
    root: Path
    """The registry's root of trust (`1.root.json`), put there when this worker is set up."""
    poll_s: Positive = 60.0
    """Between two looks, give or take a tenth: a release is everywhere within a minute."""
    kept: Annotated[Count, Field(ge=2, le=16)] = 3
    """Versions of a model that stay on disk: the one that is served and the two before it."""

    def read_root(self) -> bytes:
        """Blocking. Raises `Malformed`."""
        return read_pinned_root(self.root, "registry.root")
