"""Released bundles on a worker's disk: whole, and what was signed for, or not there.

registry/trust/                  trusted metadata
registry/loading-MODEL.json      while a version is loaded
registry/bundles/MODEL-VERSION/  the pool's folder
registry/bundles/.fetched-...    on its way; the pool passes over it
"""

import asyncio
import fcntl
import hashlib
import re
import shutil
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from shared.bundle.files import MANIFEST
from shared.bundle.reader import open_bundle
from shared.disk import write_whole, writing
from shared.errors import HybridgeError, Refused
from shared.trust.releases import ReleaseTarget

TRIES_MAX: Final = 3
_LOCK_LOOK_S: Final = 0.2
_ON_ITS_WAY: Final = re.compile(r"\.{1,2}fetched-(?P<model>.+)-[0-9a-f]{16}(\..*)?")


class _Tries(BaseModel):
    """Starts of a load that did not end, in good order or by an error."""

    model_config = ConfigDict(frozen=True)

    manifest_sha256: str
    tries: int = 0

    def to_bytes(self) -> bytes:
        return self.model_dump_json().encode()


class Bundles:
    def __init__(self, state_dir: Path) -> None:
        self.root = state_dir / "registry"
        self.trust, self.folder = self.root / "trust", self.root / "bundles"

    def make(self) -> None:
        """Raises `Unavailable`."""
        with writing(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    @asynccontextmanager
    async def alone(
        self, with_what: Literal["bundles", "loading", "trust"]
    ) -> AsyncGenerator[None]:
        """One of this machine's processes at a time: the others find what it brought."""
        with writing(self.root):
            file = (self.root / f"{with_what}.lock").open("a")
        with file:
            # A thread that waits for the lock could not be ended, and a sibling may hold it for as
            # long as a download takes: this process would not end before.
            while not _lock(file.fileno()):  # noqa: ASYNC110
                await asyncio.sleep(_LOCK_LOOK_S)
            yield

    def of(self, release: ReleaseTarget) -> Path:
        return self.folder / f"{release.model}-{release.version}"

    def fetched(self, release: ReleaseTarget) -> Path:
        """Where it is fetched into."""
        digest = hashlib.sha256(f"{release.model} {release.manifest_sha256}".encode()).hexdigest()
        return self.folder / f".fetched-{release.model}-{digest[:16]}"

    def has(self, release: ReleaseTarget) -> bool:
        """Whether it is here, to the last bit; what is here and is not it is removed."""
        return _is_whole(self.of(release), release)

    def was_fetched(self, release: ReleaseTarget) -> bool:
        """Whether it only has to be taken: this process or another was killed before it could."""
        return _is_whole(self.fetched(release), release)

    def take(self, release: ReleaseTarget) -> None:
        """Move what was fetched in. Raises `NotTrusted` unless it is what was signed for."""
        place = self.fetched(release)
        with writing(self.of(release)):
            try:
                release.check_manifest((place / MANIFEST).read_bytes())
            except HybridgeError:
                shutil.rmtree(place, ignore_errors=True)
                raise
            place.rename(self.of(release))

    @contextmanager
    def loading(self, release: ReleaseTarget) -> Iterator[None]:
        """While it is loaded, `alone`: what takes the process down, each time, is not tried for ever.

        Raises `Refused` where that happened `TRIES_MAX` times in a row.
        """
        mark = self.root / f"loading-{release.model}.json"
        before = _Tries(manifest_sha256=release.manifest_sha256)
        with suppress(OSError, ValidationError):
            found = _Tries.model_validate_json(mark.read_bytes())
            before = found if found.manifest_sha256 == before.manifest_sha256 else before
        if before.tries >= TRIES_MAX:
            raise Refused(
                f"{release.model} {release.version}: {before.tries} times this worker ended while it "
                f"loaded it; release another version, or remove {mark} to try it again"
            )
        write_whole(mark, before.model_copy(update={"tries": before.tries + 1}).to_bytes())
        try:
            yield
        finally:
            with suppress(OSError):
                mark.unlink()

    def prune(self, model: str, kept: Collection[str]) -> None:
        """Remove its versions but `kept`, and what was on its way once. Never raises: what stays
        goes the next time, as does everything while a process fetches.
        """
        with suppress(OSError), (self.root / "bundles.lock").open("a") as file:
            if not _lock(file.fileno()):
                return
            for entry in self.folder.iterdir():
                name, _, version = entry.name.rpartition("-")
                left = _ON_ITS_WAY.fullmatch(entry.name)
                if (name == model and version not in kept) or (left and left["model"] == model):
                    shutil.rmtree(entry, ignore_errors=True)


def _lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_whole(path: Path, release: ReleaseTarget) -> bool:
    if not path.is_dir():
        return False
    with suppress(HybridgeError):
        release.check_manifest(open_bundle(path).manifest_bytes)
        return True
    shutil.rmtree(path, ignore_errors=True)
    return False
