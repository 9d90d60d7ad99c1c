"""The `registry` part of the cloud's settings."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from shared.bundle.manifest import Name
from shared.config import Count, Positive
from shared.errors import Malformed
from shared.fetching.settings import Server

_ROOT_BYTES_MAX = 512 * 1024


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
        """Raises `Malformed`."""
        try:
            with self.root.open("rb") as file:
                return file.read(_ROOT_BYTES_MAX)
        except OSError as error:
            raise Malformed(
                f"registry.root {self.root}: {error.strerror}; name the registry's 1.root.json"
            ) from error
