"""What checked metadata says: which bundles of a model are released. Plain values."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

from shared.errors import NotTrusted, Unknown


@dataclass(frozen=True, slots=True)
class ReleaseTarget:
    """One released bundle. Its manifest lists every other file by hash, so this is all of it."""

    model: str
    version: str
    manifest_sha256: str
    manifest_bytes: int
    number: int  # rises with every release of this model; the highest is the newest

    def check_manifest(self, content: bytes) -> None:
        """Raises `NotTrusted` unless these are the manifest's bytes that were signed for."""
        found = hashlib.sha256(content).hexdigest()
        if len(content) != self.manifest_bytes or found != self.manifest_sha256:
            raise NotTrusted(
                f"{self.model} {self.version}: manifest.json has {len(content)} bytes and SHA-256 "
                f"{found[:12]}..., signed for are {self.manifest_bytes} and "
                f"{self.manifest_sha256[:12]}...; fetch it again, from another registry if it stays"
            )


@dataclass(frozen=True, slots=True)
class Trusted:
    """A model's releases and what vouches for them."""

    model: str
    releases: tuple[ReleaseTarget, ...]  # newest first
    root_version: int
    epoch: int  # of the registry's home
    timestamp_version: int
    role_version: int  # of the model's role
    expires: datetime  # the earliest of all metadata in the chain, UTC
    stale: str | None = None
    """Why no new release may be taken by this: expired, or a clock that cannot be right. None:
    it is fresh. What runs goes on running in either case."""

    @property
    def newest(self) -> ReleaseTarget | None:
        return self.releases[0] if self.releases else None

    def release(self, version: str) -> ReleaseTarget:
        """Raises `Unknown`."""
        for release in self.releases:
            if release.version == version:
                return release
        raise Unknown(
            f"{self.model} {version} is not released; released are "
            f"{', '.join(release.version for release in self.releases[:8]) or 'none'}"
        )
