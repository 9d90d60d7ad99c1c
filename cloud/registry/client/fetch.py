"""A version's bundle out of a registry into a folder: resumed, checked, there as a whole or not."""

import asyncio
import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from cloud.registry.client.client import RegistryClient
from cloud.registry.client.uploads import Moved
from cloud.registry.documents import ModelVersion, StoredFile
from shared.bundle.files import MANIFEST
from shared.bundle.manifest import Manifest
from shared.bundle.reader import parse_manifest
from shared.disk import sync_folder, writing
from shared.errors import InUse, Malformed, NotTrusted, Refused, Unavailable
from shared.fetching.attempts import Patience, fetch_from
from shared.fetching.partial import discard
from shared.fetching.transfer import Progress

_MANIFEST_BYTES_MAX: Final = 4 * 1024 * 1024


async def fetch_manifest(registry: RegistryClient, version: ModelVersion) -> Manifest:
    """Raises `NotTrusted` where it is not the one that the version names."""
    return parse_manifest(await _manifest_bytes(registry, version.manifest), _title(version))


async def fetch_bundle(
    registry: RegistryClient, manifest_file: StoredFile, target: Path, moved: Moved
) -> Manifest:
    """Make the folder `target`, of what `manifest_file` vouches for by its hash; what came before a
    cut lies beside it, for the next call. Each file is checked as it comes, and none twice.

    Raises:
        InUse: `target` is there: bundles are never written over.
        NotTrusted: a file is not what the manifest lists, or that is another one.
        Unavailable: the registry, or the disk.

    """
    if await asyncio.to_thread(os.path.lexists, target):
        raise InUse(f"{target} exists already; choose another folder or remove it first")
    if manifest_file.bytes > _MANIFEST_BYTES_MAX:
        raise _too_long(manifest_file.bytes)
    partial = target.with_name(f".{target.name}.{manifest_file.sha256[:16]}.partial")
    with writing(partial):
        await asyncio.to_thread(partial.mkdir, parents=True, exist_ok=True)
    place = partial / MANIFEST  # as any other file: from the first registry that has it
    try:
        await fetch_artifact(registry, manifest_file.sha256, manifest_file.bytes, place)
    except Refused:
        discard(place)
        with suppress(OSError):  # other files are in it already
            partial.rmdir()
        raise
    content = await asyncio.to_thread(place.read_bytes)
    manifest = parse_manifest(content, f"{target}: {MANIFEST}")
    slots = asyncio.Semaphore(registry.connection.settings.transfers)

    async def one(path: str, sha256: str, size: int) -> None:
        place = partial / path
        async with slots:
            await asyncio.to_thread(place.parent.mkdir, parents=True, exist_ok=True)
            seen = 0

            def on_progress(here: int, _: int) -> None:
                nonlocal seen
                moved(here - seen)
                seen = here

            await fetch_artifact(registry, sha256, size, place, on_progress)
            moved(size - seen)

    files = {file.path: file for file in manifest.files()}
    try:
        await asyncio.to_thread(partial.mkdir, parents=True, exist_ok=True)
        async with asyncio.TaskGroup() as group:
            for file in files.values():
                group.create_task(one(file.path, file.sha256, file.bytes))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    except OSError as error:
        raise Unavailable(f"{partial}: cannot write it: {error.strerror}") from error
    await asyncio.to_thread(_finish, partial, frozenset(files), content, target)
    return manifest


async def fetch_artifact(
    registry: RegistryClient,
    sha256: str,
    size: int,
    place: Path,
    on_progress: Progress | None = None,
) -> None:
    """One file by its hash; `on_progress(bytes here, of how many)`."""
    connection = registry.connection
    await fetch_from(
        connection.session,
        [f"{url}/v1/artifacts/{sha256}" for url in connection.urls],
        place,
        sha256=sha256,
        bytes=size,
        on_progress=on_progress,
        patience=Patience(
            backoff_s_min=connection.settings.pause_s_min,
            backoff_s_max=connection.settings.pause_s_max,
            stall_s=connection.settings.silence_s_max,
        ),
        rng=connection.rng,
    )


async def _manifest_bytes(registry: RegistryClient, file: StoredFile) -> bytes:
    answer = await registry.connection.call("GET", f"/v1/artifacts/{file.sha256}")
    if len(answer.body) > _MANIFEST_BYTES_MAX:
        raise _too_long(len(answer.body))
    if hashlib.sha256(answer.body).hexdigest() != file.sha256:
        raise NotTrusted(
            f"{MANIFEST}: came with another hash than {file.sha256[:16]}...; fetch it again, and "
            "look at what is between here and the registry"
        )
    return answer.body


def _too_long(size: int) -> Malformed:
    return Malformed(f"{MANIFEST}: {size} bytes; at most {_MANIFEST_BYTES_MAX} are read")


def _finish(partial: Path, listed: frozenset[str], manifest: bytes, target: Path) -> None:
    try:
        for path in [entry for entry in partial.rglob("*") if not entry.is_dir()]:
            if path.relative_to(partial).as_posix() not in listed:
                path.unlink()  # nothing vouches for it, and no bundle with it would open
        with (partial / MANIFEST).open("wb") as file:
            file.write(manifest)
            file.flush()
            os.fsync(file.fileno())
        for folder in [partial, *(entry for entry in partial.rglob("*") if entry.is_dir())]:
            sync_folder(folder)
        partial.rename(target)
        sync_folder(target.parent)
    except OSError as error:
        raise Unavailable(f"{target}: cannot write it: {error.strerror}") from error


def _title(version: ModelVersion) -> str:
    return f"{version.model} {version.version}: {MANIFEST}"
