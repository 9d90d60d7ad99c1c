"""Where versions lie on this device. Blocking.

updates/state.json            where the update stands, and which version is active
updates/versions/1.2.0-ab12/  whole, verified bundles: the active one and those before it
updates/staging/1.3.0-cd34/   a bundle on its way
updates/deltas/               deltas on their way
updates/trust/                trusted metadata
"""

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from edge.updates.release import Release
from edge.updates.state import State
from shared.bundle.files import MANIFEST
from shared.bundle.reader import Bundle, open_bundle, parse_manifest
from shared.disk import sync_folder, writing
from shared.errors import HybridgeError, NotTrusted

_MANIFEST_BYTES_MAX = 4 * 1024 * 1024


class Folders:
    def __init__(self, state_dir: Path, factory: Path) -> None:
        """`factory`: the bundle that the device was set up with, a folder or a `.hyb` file."""
        self.root, self.factory = state_dir / "updates", factory
        self.trust = self.root / "trust"
        self.deltas = self.root / "deltas"
        self._versions, self._staging = self.root / "versions", self.root / "staging"

    def of(self, release: Release) -> Path:
        """The bundle of an installed version."""
        return self.factory if release.factory else self._versions / release.folder

    def staging(self, release: Release) -> Path:
        return self._staging / release.folder

    def open(self, release: Release, path: Path | None = None) -> Bundle:
        """Verify every byte of it against the manifest that was trusted when it was installed.

        Raises what `open_bundle` raises, `NotTrusted` for another manifest.
        """
        where = path or self.of(release)
        bundle = open_bundle(where)
        check_manifest(release, bundle.manifest_bytes, where)
        return bundle

    def install(self, release: Release) -> None:
        """Move a verified bundle from staging to its place, durably. Raises `Unavailable`."""
        staged, place = self.staging(release), self.of(release)
        for folder in (staged, *(p for p in staged.rglob("*") if p.is_dir())):
            sync_folder(folder)
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            if place.exists():
                shutil.rmtree(place)
            staged.rename(place)
        sync_folder(place.parent)

    def prune(self, state: State) -> None:
        """Remove what the state does not name. Never raises: what stays goes the next time."""
        kept = {r.folder for r in (state.active, *state.previous)}
        coming = set()
        if state.candidate is not None:
            kept.add(state.candidate.folder)
            coming.add(state.candidate.folder)
        _remove_others(self._versions, kept)
        _remove_others(self._staging, coming)
        if not coming:
            _remove_others(self.deltas, set())

    def discard(self, release: Release) -> None:
        """Remove an installed version whose files are damaged."""
        if not release.factory:
            shutil.rmtree(self.of(release), ignore_errors=True)

    def make_room(self) -> None:
        """Remove everything that is on its way."""
        for folder in (self._staging, self.deltas):
            _remove_others(folder, set())

    def have(self, releases: Iterable[Release]) -> dict[str, Path]:
        """Files of installed versions by what their manifests say that they are: hash, then use."""
        found: dict[str, Path] = {}
        for release in releases:
            folder = self.of(release)
            if not folder.is_dir():
                continue  # an archive
            with suppress(OSError, HybridgeError):
                content = _head(folder / MANIFEST, _MANIFEST_BYTES_MAX)
                for file in parse_manifest(content, str(folder)).files():
                    found.setdefault(file.sha256, folder / file.path)
        return found

    def free_bytes(self) -> int:
        """Bytes that an ordinary user may still write. Raises `Unavailable`."""
        with writing(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            return shutil.disk_usage(self.root).free


def check_manifest(release: Release, content: bytes, where: Path) -> None:
    """Raises `NotTrusted` unless these are the manifest's bytes that were trusted."""
    if release.factory:
        return  # whoever set the device up vouches for it; it may be replaced by hand
    found = hashlib.sha256(content).hexdigest()
    if found != release.manifest_sha256 or len(content) != release.manifest_bytes:
        raise NotTrusted(
            f"{where}: its manifest is {found[:16]}..., trusted was "
            f"{release.manifest_sha256[:16]}...; it is not used"
        )


def factory_release(bundle: Bundle) -> Release:
    content = bundle.manifest_bytes
    return Release(
        bundle.manifest.version, hashlib.sha256(content).hexdigest(), len(content), number=0
    )


def _remove_others(folder: Path, kept: set[str]) -> None:
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.name in kept:
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                Path(entry.path).unlink(missing_ok=True)


def _head(path: Path, bytes_max: int) -> bytes:
    with path.open("rb") as file:
        return file.read(bytes_max)
