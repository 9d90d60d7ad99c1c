"""A replica at work: it follows, reports, and looks out for newer roots."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.documents import Head
from cloud.registry.replication.following import Following
from cloud.registry.replication.lookout import Lookout
from cloud.registry.replication.peer import Peer
from cloud.registry.replication.region_status import RegionState, RegionStatus
from cloud.registry.replication.reporter import Reporter
from cloud.registry.replication.settings import HomeSettings, PeerSettings
from cloud.registry.replication.trusted_root import TrustedRoot
from shared.api_key import key_in

log = logging.getLogger(__name__)


class Replica:
    """`run` once."""

    def __init__(
        self,
        name: str,
        home: HomeSettings,
        peers: PeerSettings,
        catalog: Catalog,
        artifacts: Artifacts,
        root: TrustedRoot,
        folder: Path,
        on_ingested: Callable[[], None],
    ) -> None:
        self._home, self._look = home, peers
        self._root = root
        key = key_in(home.key_file)
        self._peers = {
            url: Peer(
                url, key, wait_s_max=home.wait_s, answer_bytes_max=home.answer_bytes_max,
                transfers=home.copies_max,
            )
            for url in home.urls
        }  # fmt: skip
        self._asked = [Peer(url, key, wait_s_max=peers.timeout_s) for url in home.urls]
        self._lookout = Lookout(self._asked, root, peers.timeout_s)
        self._following = Following(
            home, self._peers, catalog, artifacts, root, folder, on_ingested
        )
        self._reporter = Reporter(name, home, self._peers, catalog, artifacts, self._following)

    async def run(self, was_switched: Callable[[], Awaitable[bool]]) -> None:
        """Until it is cancelled, or `was_switched` says that this is no replica any more."""
        async with AsyncExitStack() as stack:
            for peer in (*self._peers.values(), *self._asked):
                await stack.enter_async_context(peer)
            async with asyncio.TaskGroup() as parts:
                tasks = [
                    parts.create_task(self._following.run(), name="following"),
                    parts.create_task(self._reporter.run(), name="reporter"),
                ]
                while not await was_switched():
                    self._lookout.newest_at = ""
                    await self._lookout.look()
                    if self._lookout.newest_at:
                        self._following.root_changed(self._lookout.newest_at)
                    await asyncio.sleep(self._look.look_s)
                for task in tasks:
                    task.cancel()

    def status(self, head: Head) -> RegionStatus:
        """`head`: of the catalog, as last seen."""
        following = self._following
        state, copier = following.state, following.copier
        if state is not None:
            head = state.head
        return RegionStatus(
            role="replica", state=self._state(), epoch=head.epoch, seq=head.seq,
            behind=state.behind if state else 0,
            artifacts_missing=copier.missing + self._reporter.missing,
            home=state.url if state else self._home.urls[0], why=state.why if state else "",
            counts={
                **following.counts, "artifacts": copier.copied,
                "artifact_bytes": copier.copied_bytes, "roots_refused": self._lookout.refused,
            },
        )  # fmt: skip

    def _state(self) -> RegionState:
        state = self._following.state
        if state is None:
            return "starting"
        match state.phase:
            case "forked" | "copying":
                return state.phase
            case _ if state.followed:
                return "following"
            case _:
                return "away" if state.rounds else "starting"
