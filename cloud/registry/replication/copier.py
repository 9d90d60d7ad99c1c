"""Artifacts from another registry, several at once, each from where its last copy was cut."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Mapping

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.replication.peer import Peer
from cloud.registry.replication.settings import HomeSettings
from shared.errors import Disconnected, Malformed, TooLarge, Unknown

log = logging.getLogger(__name__)


class Copier:
    """What arrives is verified by the artifact store; a file that is no copy never becomes one."""

    def __init__(self, artifacts: Artifacts, settings: HomeSettings) -> None:
        self._artifacts, self._settings = artifacts, settings
        self.copied = 0  # artifacts
        self.copied_bytes = 0
        self.missing = 0  # of the batch under way

    async def copy(self, peer: Peer, wanted: Mapping[str, int | None]) -> frozenset[str]:
        """Returns once all are here, but for those that `peer` does not have itself: these.

        Raises what the first that failed raised; what came before stays, and is gone on with.
        """
        here = await self._artifacts.has(set(wanted))
        missing = [(sha256, size) for sha256, size in wanted.items() if sha256 not in here]
        self.missing = len(missing)
        gone: set[str] = set()
        todo = iter(missing)
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(self._settings.copies_max, len(missing))):
                    workers.create_task(self._work(peer, todo, gone))
        except BaseExceptionGroup as group:
            raise _first(group) from group
        if gone:  # of versions that were deleted since, and metadata that newer took the place of
            log.info(
                "artifacts_gone", extra={"count": len(gone), "first": min(gone), "home": peer.url}
            )
        return frozenset(gone)

    async def _work(
        self, peer: Peer, todo: Iterator[tuple[str, int | None]], gone: set[str]
    ) -> None:
        for sha256, size in todo:
            try:
                await self._one(peer, sha256, size)
            except Unknown:
                gone.add(sha256)
            self.missing -= 1

    async def _one(self, peer: Peer, sha256: str, size: int | None) -> None:
        uploads, most = self._artifacts.uploads, self._settings.artifact_bytes_max
        kept = await uploads.offset(sha256) or 0
        async with peer.artifact(sha256, kept) as part:
            total = part.total_bytes
            if total > most:
                raise TooLarge(
                    f"{peer.url}: artifact {sha256[:12]} has {total} bytes, at most {most} are "
                    "copied; raise home.artifact_bytes_max"
                )
            if size is not None and total != size:
                raise Malformed(
                    f"{peer.url}: artifact {sha256[:12]} has {total} bytes there, {size} in the log"
                )
            kept = kept if kept <= total else 0  # begun with another size, and dropped for this one
            skipped = max(0, kept - part.offset)
            after = await uploads.append(sha256, total, kept, _without(part.chunks, skipped))
            if after < total:
                raise Disconnected(
                    f"{peer.url}: artifact {sha256[:12]} ended at {after} of {total}"
                )
        self.copied += 1
        self.copied_bytes += total - kept


async def _without(chunks: AsyncIterator[bytes], skipped: int) -> AsyncIterator[bytes]:
    """Drop what is here already, where the other end began at the front all the same."""
    async for chunk in chunks:
        if skipped < len(chunk):
            yield chunk[skipped:] if skipped else chunk
        skipped = max(0, skipped - len(chunk))


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
