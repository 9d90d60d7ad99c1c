"""What is published: read from the catalog and the artifact store, parsed off the event loop."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cloud.registry.documents import ModelVersion, State, StoredFile
from cloud.registry.trust.acceptance import Published
from cloud.registry.trust.edits import read
from shared.errors import Refused, Unavailable, Unknown
from shared.trust.names import bytes_max, model_of
from shared.trust.tuf_api import AnyMetadata

T = TypeVar("T")


class TrustCatalog(Protocol):
    """What is asked of the catalog."""

    def trust_file(self, role: str, version: int | None) -> StoredFile:
        """None: the newest. Raises `Unknown`."""
        ...

    def versions(self, model: str) -> list[ModelVersion]:
        """Raises `Unknown`."""
        ...


class TrustArtifacts(Protocol):
    """What is asked of the artifact store."""

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
        snapshot, timestamp = await self.newest("snapshot"), await self.newest("timestamp")
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
