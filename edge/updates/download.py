"""A released bundle into staging: what is here already is linked, deltas come first, then the rest.

Every file is checked against the manifest, and the manifest against what was signed. A kill -9 costs
the bytes since the last write; a cut is resumed where it stopped.
"""

import asyncio
import errno
import logging
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from edge.updates.compatible import why_not
from edge.updates.folders import Folders
from edge.updates.plan import DeltaOffer, best_delta, files_of, lacking_bytes
from edge.updates.registry_client import RegistryClient
from edge.updates.release import Release
from shared.backoff import Jitter
from shared.bundle.files import MANIFEST
from shared.bundle.manifest import File, Manifest
from shared.bundle.reader import parse_manifest
from shared.delta.decoder import apply
from shared.disk import NoRoom, sync_folder, writing
from shared.errors import HybridgeError, Malformed, Refused
from shared.fetching.attempts import Patience, fetch_from
from shared.fetching.pace import Pace
from shared.fetching.partial import beside, discard
from shared.fetching.transfer import Progress, is_file

log = logging.getLogger(__name__)


class Incompatible(Refused):
    """The candidate cannot stand in for the active model, whatever its bytes are worth."""


class Download:
    """Fetches one release at a time."""

    def __init__(
        self,
        registry: RegistryClient,
        folders: Folders,
        *,
        pace: Pace | None,
        patience: Patience,
        free_bytes_min: int,
        rng: Jitter,
    ) -> None:
        self._registry, self._folders = registry, folders
        self.pace = pace
        self._patience, self._rng = patience, rng
        self._free_bytes_min = free_bytes_min
        self.done_bytes, self.total_bytes, self.saved_bytes = 0, 0, 0

    async def fetch(
        self, release: Release, active: Manifest, installed: tuple[Release, ...]
    ) -> None:
        """Make `folders.staging(release)` whole; or leave what came, to go on from.

        `installed`: versions here whose files may be used. Raises `Incompatible`, `Malformed` or
        `TooLarge` (the candidate is at fault), `NoRoom`, another `Unavailable`, or what the
        registries said.
        """
        self.done_bytes, self.total_bytes, self.saved_bytes = 0, 0, 0
        folder = self._folders.staging(release)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        place = folder / MANIFEST
        await self._get(release.manifest_sha256, release.manifest_bytes, place)
        manifest = parse_manifest(await asyncio.to_thread(place.read_bytes), f"{release}")
        if manifest.version != release.version:
            raise Malformed(f"{release}: its manifest says that it is {manifest.version}")
        if (why := why_not(active, manifest)) is not None:
            raise Incompatible(why)
        files = files_of(manifest, f"{release}")
        self.total_bytes = sum(file.bytes for file in files)
        have = await asyncio.to_thread(self._folders.have, installed)
        missing = await asyncio.to_thread(_link, files, folder, have, self._folders.factory)
        self.done_bytes = self.total_bytes - sum(file.bytes for file in missing)
        self.saved_bytes = self.done_bytes
        self._check_room(release, missing, folder)
        for file in missing:
            await self._one(file, folder / file.path, have)

    def _check_room(self, release: Release, missing: list[File], folder: Path) -> None:
        here = sum(_size(beside(folder / file.path, ".partial")) for file in missing)
        needed = sum(file.bytes for file in missing) - here
        free = self._folders.free_bytes()
        if lacking := lacking_bytes(needed, free, self._free_bytes_min if missing else 0):
            raise NoRoom(
                f"{self._folders.root}: {release} needs {needed} bytes and {self._free_bytes_min} "
                f"must stay free, {free} are free: {lacking} are lacking; free them"
            )

    async def _one(self, file: File, place: Path, have: Mapping[str, Path]) -> None:
        before = self.done_bytes
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
        if await asyncio.to_thread(_copy, have.get(file.sha256), file, place):
            self.saved_bytes += file.bytes
        elif not (
            await asyncio.to_thread(is_file, place, file.sha256, file.bytes)
            or await self._by_delta(file, place, have)
        ):
            await self._get(file.sha256, file.bytes, place, self._noting(before))
        self.done_bytes = before + file.bytes

    async def _by_delta(self, file: File, place: Path, have: Mapping[str, Path]) -> bool:
        """Whether the file was made of one that is here. Whatever goes wrong: the full file then.

        A partial full download is not thrown away for it.
        """
        if not have or _size(beside(place, ".partial")):
            return False
        offer = best_delta(await self._registry.deltas_to(file.sha256), file, have)
        if offer is None:
            return False
        delta = self._folders.deltas / offer.sha256
        try:
            with writing(delta):
                delta.parent.mkdir(parents=True, exist_ok=True)
            await self._get(offer.sha256, offer.bytes, delta)
            await asyncio.to_thread(_rebuild, have[offer.from_sha256], delta, file, place)
        except NoRoom:
            raise
        except HybridgeError as error:
            self._forget(delta, offer, error)
            return False
        finally:
            with suppress(OSError):  # a disk that is read-only by now
                await asyncio.to_thread(delta.unlink, missing_ok=True)
        self.saved_bytes += file.bytes - offer.bytes
        return True

    def _forget(self, delta: Path, offer: DeltaOffer, error: HybridgeError) -> None:
        discard(delta)
        log.warning("delta_unusable", extra={"delta": offer.sha256, "why": str(error)[:300]})

    async def _get(self, sha256: str, size: int, place: Path, note: Progress | None = None) -> None:
        await fetch_from(
            self._registry.session, self._registry.artifact_urls(sha256), place, sha256=sha256,
            bytes=size, headers=self._registry.headers, pace=self.pace, on_progress=note,
            patience=self._patience, rng=self._rng,
        )  # fmt: skip

    def _noting(self, before: int) -> Progress:
        def note(here: int, _: int) -> None:
            self.done_bytes = before + here

        return note


def _link(
    files: tuple[File, ...], folder: Path, have: Mapping[str, Path], factory: Path
) -> list[File]:
    """Give staging a name for each file that is here and whole; returns those that are not, and
    those of the factory bundle. With these no version shares bytes: a bit that flips in a file that
    all versions have must leave one that opens.
    """
    missing = []
    for file in files:
        place, source = folder / file.path, have.get(file.sha256)
        if is_file(place, file.sha256, file.bytes):
            continue
        if (
            source is None
            or source.is_relative_to(factory)
            or not is_file(source, file.sha256, file.bytes)
        ):
            missing.append(file)
            continue
        with writing(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            _link_or_copy(source, place)
    return missing


def _copy(source: Path | None, file: File, place: Path) -> bool:
    """Whether the file could be had from `source`."""
    if source is None or not is_file(source, file.sha256, file.bytes):
        return False
    with writing(place):
        place.unlink(missing_ok=True)
        shutil.copyfile(source, place)
        _sync(place)
    return True


def _link_or_copy(source: Path, place: Path) -> None:
    try:
        place.hardlink_to(source)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP):
            raise
        shutil.copyfile(source, place)
        _sync(place)


def _rebuild(old: Path, delta: Path, file: File, place: Path) -> None:
    with writing(place):
        content = apply(
            old.read_bytes(), delta.read_bytes(), bytes_max=file.bytes, sha256=file.sha256
        )
        fresh = beside(place, ".partial")
        try:
            fresh.write_bytes(content)
            _sync(fresh)
            fresh.replace(place)
        except OSError:
            with suppress(OSError):
                fresh.unlink()
            raise
    sync_folder(place.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
