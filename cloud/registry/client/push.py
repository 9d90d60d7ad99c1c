"""A bundle or a data set into a registry: only what it lacks, several files at once, resumable."""

import asyncio
import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cloud.registry.client.client import RegistryClient
from cloud.registry.client.uploads import BytesSource, FileSource, Moved, Source, upload
from cloud.registry.documents import DataSet, ModelVersion, Origin
from shared.bundle.files import MANIFEST
from shared.bundle.manifest import Manifest
from shared.bundle.reader import Bundle
from shared.errors import Conflict, Malformed, Unknown

DATA_SET_BYTES_MAX: Final = 4 * 1024**3
_READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Sent:
    """One file to send."""

    sha256: str
    size: int
    source: Source


@dataclass(frozen=True, slots=True)
class Parcel:
    """A bundle as what is to be there before it can be registered; each content once."""

    manifest: Manifest
    manifest_sha256: str
    files: Mapping[str, Sent]  # by sha256, the manifest's own among them

    @property
    def total_bytes(self) -> int:
        return sum(one.size for one in self.files.values())


@dataclass(frozen=True, slots=True)
class Plan:
    """What a push will do."""

    parcel: Parcel
    is_registered: bool  # this very version, so nothing is left to do
    missing: tuple[Sent, ...]

    @property
    def missing_bytes(self) -> int:
        return sum(one.size for one in self.missing)


def parcel_of(bundle: Bundle, path: Path) -> Parcel:
    """Of a bundle that `open_bundle(path)` has checked; its graphs may be left to the registry, which
    hashes each file that it is sent.
    """
    manifest_sha256 = hashlib.sha256(bundle.manifest_bytes).hexdigest()
    files = {
        manifest_sha256: Sent(
            manifest_sha256, len(bundle.manifest_bytes), BytesSource(bundle.manifest_bytes)
        )
    }
    for file in bundle.manifest.files():
        source: Source = (
            FileSource(path / file.path) if path.is_dir() else BytesSource(bundle.read(file))
        )
        files.setdefault(file.sha256, Sent(file.sha256, file.bytes, source))
    return Parcel(bundle.manifest, manifest_sha256, files)


async def plan(registry: RegistryClient, parcel: Parcel) -> Plan:
    """Ask what is missing; changes nothing.

    Raises:
        Conflict: the registry has another bundle under this name and version.

    """
    name, version = parcel.manifest.name, parcel.manifest.version
    try:
        there = await registry.version(name, version)
    except Unknown:
        pass
    else:
        if there.deleted:
            raise Conflict(
                f"{name} {version} was deleted, and its number stays taken: give this one a new number"
            )
        if there.manifest.sha256 != parcel.manifest_sha256:
            raise Conflict(
                f"{name} {version} is registered with another {MANIFEST} "
                f"({there.manifest.sha256[:16]}..., this one is {parcel.manifest_sha256[:16]}...); "
                "versions never change: give this one a new number"
            )
        return Plan(parcel, is_registered=True, missing=())
    missing = await registry.missing(list(parcel.files))
    return Plan(
        parcel,
        is_registered=False,
        missing=tuple(parcel.files[sha256] for sha256 in parcel.files if sha256 in missing),
    )


async def push(
    registry: RegistryClient, planned: Plan, origin: Origin, moved: Moved
) -> ModelVersion:
    """Send what is missing, then register. Run again after a cut it goes on where it was."""
    manifest = planned.parcel.manifest
    if planned.is_registered:
        return await registry.version(manifest.name, manifest.version)
    await send(registry, planned.missing, moved)
    return await registry.register(
        manifest.name, manifest.version, planned.parcel.manifest_sha256, origin
    )


async def send(registry: RegistryClient, files: tuple[Sent, ...], moved: Moved) -> None:
    """Upload files, `ClientSettings.transfers` at once; the first failure ends all."""
    slots = asyncio.Semaphore(registry.connection.settings.transfers)

    async def one(file: Sent) -> None:
        async with slots:
            await upload(registry.connection, file.sha256, file.size, file.source, moved)

    try:
        async with asyncio.TaskGroup() as group:
            for file in files:
                group.create_task(one(file))
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None


async def push_data_set(
    registry: RegistryClient, name: str, version: int, sent: Sent, moved: Moved
) -> DataSet:
    """Send a data set's file, if it is not there, and add it."""
    if await registry.missing([sent.sha256]):
        await send(registry, (sent,), moved)
    return await registry.add_data_set(name, version, sent.sha256, sent.size)


def hashed(path: Path) -> Sent:
    """A file by its hash. Raises `Malformed`."""
    digest = hashlib.sha256()
    size = 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_READ_BYTES):
                digest.update(chunk)
                size += len(chunk)
                if size > DATA_SET_BYTES_MAX:
                    raise Malformed(f"{path}: over {DATA_SET_BYTES_MAX} bytes; split it")
    except OSError as error:
        raise Malformed(f"{path}: cannot read it: {error.strerror}") from error
    return Sent(digest.hexdigest(), size, FileSource(path))


async def ensure_model(registry: RegistryClient, name: str) -> None:
    """Make the model, with the default gate, where there is none."""
    try:
        await registry.model(name)
    except Unknown:
        with contextlib.suppress(Conflict):  # another push made it meanwhile
            await registry.set_model(name, owner=None, gate=None, revision=0)
