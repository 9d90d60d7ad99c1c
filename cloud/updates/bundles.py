"""Released bundles on a worker's disk: whole, and what was signed for, or not there.

registry/trust/                  trusted metadata
registry/bundles/MODEL-VERSION/  the pool's folder
"""

import asyncio
import fcntl
import hashlib
import shutil
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from shared.bundle.files import MANIFEST
from shared.bundle.reader import open_bundle
from shared.errors import HybridgeError
from shared.fetching.partial import writing
from shared.trust.releases import ReleaseTarget


class Bundles:
    def __init__(self, state_dir: Path) -> None:
        self.root = state_dir / "registry"
        self.trust, self.folder = self.root / "trust", self.root / "bundles"

    def make(self) -> None:
        """Raises `Unavailable`."""
        with writing(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        """One of this machine's processes at a time: the others find what it brought."""
        with writing(self.root):
            file = (self.root / "lock").open("a")
        with file:
            await asyncio.to_thread(fcntl.flock, file, fcntl.LOCK_EX)
            yield

    def of(self, release: ReleaseTarget) -> Path:
        return self.folder / f"{release.model}-{release.version}"

    def has(self, release: ReleaseTarget) -> bool:
        """Whether it is here, to the last bit; what is here and is not it is removed."""
        path = self.of(release)
        if not path.is_dir():
            return False
        with suppress(HybridgeError):
            release.check_manifest(open_bundle(path).manifest_bytes)
            return True
        shutil.rmtree(path, ignore_errors=True)
        return False

    def take(self, release: ReleaseTarget, fetched: Path) -> None:
        """Move a fetched folder in. Raises `NotTrusted` unless it is what was signed for."""
        try:
            release.check_manifest((fetched / MANIFEST).read_bytes())
        except HybridgeError:
            shutil.rmtree(fetched, ignore_errors=True)
            raise
        with writing(self.of(release)):
            fetched.rename(self.of(release))

    def prune(self, model: str, kept: Collection[str]) -> None:
        """Remove its versions but `kept`. Never raises: what stays goes the next time."""
        with suppress(OSError):
            for entry in self.folder.iterdir():
                name, _, version = entry.name.rpartition("-")
                if name == model and version not in kept:
                    shutil.rmtree(entry, ignore_errors=True)


def partial_name(release: ReleaseTarget) -> str:
    """Of the folder that it is fetched into, which the pool passes over."""
    digest = hashlib.sha256(f"{release.model} {release.manifest_sha256}".encode()).hexdigest()
    return f".fetched-{digest[:16]}"
