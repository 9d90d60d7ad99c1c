"""What is published: read from the catalog and the artifact store, parsed off the event loop."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from cloud.registry.catalog.changes import TrustPublished
from cloud.registry.documents import ModelVersion, State, StoredFile
from cloud.registry.trust.acceptance import Published
from cloud.registry.trust.edits import listing, next_timestamp, read
from shared.errors import NotTrusted, Refused, Unavailable, Unknown
from shared.trust.names import bytes_max, model_of
from shared.trust.tuf_api import AnyMetadata

T = TypeVar("T")
log = logging.getLogger(__name__)
_LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class TrustCatalog(Protocol):
    """What is asked of the catalog."""

    def trust_file(self, role: str, version: int | None) -> StoredFile:
        """None: the newest. Raises `Unknown`."""
        ...

    def trust_files(self) -> list[TrustPublished]:
        """Every version of every role, rising."""
        ...

    def versions(self, model: str) -> list[ModelVersion]:
        """Raises `Unknown`."""
        ...


class TrustArtifacts(Protocol):
    """What is asked of the artifact store."""

    async def has(self, sha256s: Iterable[str]) -> set[str]: ...

    async def put_bytes(self, content: bytes) -> str: ...

    async def read(self, sha256: str, bytes_max: int) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Found:
    """The newest of each, as far as it was asked for."""

    published: Published
    snapshot: bytes | None
    timestamp: bytes | None


@dataclass(frozen=True, slots=True)
class PublishedFiles:
    """Raises `Unavailable` while a store is away."""

    catalog: TrustCatalog
    artifacts: TrustArtifacts

    async def newest(self, role: str) -> bytes | None:
        """None: there is none yet."""
        try:
            file = await off_loop(self.catalog.trust_file, role, None)
        except Unknown:
            return None
        try:
            return await self.artifacts.read(file.sha256, bytes_max(role))
        except Unknown as error:
            raise Unavailable(
                f"{file.path}: the catalog names it and the artifact store lacks it; restore the store"
            ) from error

    async def retired(self, model: str) -> frozenset[str]:
        """Its versions that are: the signed metadata may still name those that a release retired."""
        try:
            found = await off_loop(self.catalog.versions, model)
        except Unknown:
            return frozenset()
        return frozenset(one.version for one in found if one.state is State.RETIRED)

    async def metadata(self, role: str) -> AnyMetadata | None:
        content = await self.newest(role)
        return None if content is None else await off_loop(read, content, role, role)

    async def read(self, roles: set[str], *, all_models: bool = False) -> Found:
        """Of the models' roles those named; all of them where the targets are to change."""
        snapshot = await self._online("snapshot")
        timestamp = await self._online("timestamp")
        listed: frozenset[str] = frozenset()
        if snapshot is not None:
            metadata = await off_loop(read, snapshot, "snapshot", "snapshot")
            names = (name.removesuffix(".json") for name in metadata.signed.meta)
            listed = frozenset(name for name in names if model_of(name) is not None)
        wanted = listed if all_models or "targets" in roles else listed & roles
        models = {role: await self.metadata(role) for role in sorted(wanted)}
        published = Published(
            root=await self.metadata("root"),
            targets=await self.metadata("targets"),
            models={role: one for role, one in models.items() if one is not None},
            listed=listed,
        )
        return Found(published, snapshot, timestamp)

    async def _online(self, role: str) -> bytes | None:
        """Of snapshot and timestamp, which this registry can sign anew. One whose file the store
        lost is given without signatures, as the catalog knows it: nobody takes it for good, and
        the next one follows on it.
        """
        try:
            return await self.newest(role)
        except (Unavailable, NotTrusted) as error:
            if not await self._is_lost(role):
                raise
            log.error("trust_file_lost", extra={"role": role, "why": str(error)})  # noqa: TRY400  the chain is in it
        return await off_loop(self._unsigned, role)

    async def _is_lost(self, role: str) -> bool:
        """And not just away: the store answers, and has not got it (or set it aside just now)."""
        file = await off_loop(self.catalog.trust_file, role, None)
        return file.sha256 not in await self.artifacts.has([file.sha256])

    def _unsigned(self, role: str) -> bytes:
        newest = {one.role: (one.version, one.file) for one in self.catalog.trust_files()}
        version, listed = newest[role][0], {"targets": newest["targets"]}
        listed |= {name: one for name, one in newest.items() if model_of(name) is not None}
        snapshot = listing(listed, newest["snapshot"][0], _LONG_AGO)
        return snapshot if role == "snapshot" else next_timestamp(snapshot, _LONG_AGO, 0, version)


async def off_loop(work: Callable[..., T], *given: object) -> T:
    """Parsing and signatures take milliseconds, disks longer."""
    return await asyncio.to_thread(work, *given)


def versions_of(files: Mapping[str, bytes]) -> dict[str, int]:
    return {role: read(content, role, role).signed.version for role, content in files.items()}


def readable_versions(files: Mapping[str, bytes]) -> dict[str, int]:
    """Less those that are no metadata."""
    found: dict[str, int] = {}
    for role, content in files.items():
        with contextlib.suppress(Refused):
            found |= versions_of({role: content})
    return found
