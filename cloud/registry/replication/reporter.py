"""Tells the home what this replica has and what its devices run; mends what is missing here."""

import asyncio
import logging
import time
from collections.abc import Mapping

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.documents import ReplicaState
from cloud.registry.replication.following import Following
from cloud.registry.replication.peer import Peer
from cloud.registry.replication.settings import HomeSettings
from shared.errors import HybridgeError

log = logging.getLogger(__name__)

_RUNNERS_MAX = 10_000  # of a report, as its document has it


class Reporter:
    def __init__(
        self,
        name: str,
        settings: HomeSettings,
        peers: Mapping[str, Peer],
        catalog: Catalog,
        artifacts: Artifacts,
        following: Following,
    ) -> None:
        self._name, self._settings, self._peers = name, settings, peers
        self._catalog, self._artifacts, self._following = catalog, artifacts, following
        self.missing = 0  # artifacts, when it was looked last
        self._mend_at = float("-inf")
        self._failing = False

    async def run(self) -> None:
        """Until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._following.followed.wait()
            state = self._following.state
            if state is not None and state.followed:
                peer = self._peers[state.url]
                if loop.time() >= self._mend_at and not state.behind:
                    await self._mend(peer)
                    self._mend_at = loop.time() + self._settings.mend_s
                await self._report(peer)
            await asyncio.sleep(self._settings.report_s)

    async def _mend(self, peer: Peer) -> None:
        """Copy what entries of before need and what is not here: lost bits, or gone there then."""
        needed = await asyncio.to_thread(self._catalog.needed_artifacts)
        here = await self._artifacts.stored()
        self.missing = len(needed - here)
        if not self.missing:
            return
        log.warning("artifacts_missing", extra={"count": self.missing, "home": peer.url})
        wanted = dict.fromkeys(sorted(needed - here))
        try:
            self.missing = len(await self._following.copier.copy(peer, wanted))
        except HybridgeError as error:
            log.warning("not_mended", extra={"home": peer.url, "why": str(error)})

    async def _report(self, peer: Peer) -> None:
        try:
            await peer.report(await asyncio.to_thread(self._state))
        except HybridgeError as error:
            if not self._failing:
                log.warning("report_failed", extra={"home": peer.url, "why": str(error)})
            self._failing = True
            return
        self._failing = False

    def _state(self) -> ReplicaState:
        head = self._catalog.head()
        running = self._catalog.runners(None)
        return ReplicaState(
            name=self._name, url=self._settings.url or "", epoch=head.epoch, seq=head.seq,
            artifacts_missing=self.missing + self._following.copier.missing,
            running=tuple(running[:_RUNNERS_MAX]), seen_at=time.time(),
        )  # fmt: skip
