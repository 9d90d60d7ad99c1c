"""A home asks the other registries whether it still is one; a fenced one keeps its own entries aside."""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from cloud.registry.catalog.catalog import Catalog
from cloud.registry.replication.divergence import fork_of, write_aside
from cloud.registry.replication.lookout import Lookout
from cloud.registry.replication.peer import Peer
from cloud.registry.replication.role import RegionRole, RoleFile
from cloud.registry.replication.settings import PeerSettings
from cloud.registry.replication.signed_heads import is_signed
from cloud.registry.replication.trusted_root import FetchRoot, TrustedRoot
from shared.api_key import key_in
from shared.errors import HybridgeError

log = logging.getLogger(__name__)

_END: Final = 2**53 - 1  # after all entries: an answer is the head alone


class HomeWatch:
    def __init__(
        self,
        settings: PeerSettings,
        others: Sequence[str],
        catalog: Catalog,
        root: TrustedRoot,
        own_root: FetchRoot,
        role_file: RoleFile,
        *,
        alone: bool,
    ) -> None:
        """`others`: whom it followed before it was promoted; they are asked too, and may be dead."""
        self._settings, self._catalog = settings, catalog
        self._root, self._own_root, self._role_file = root, own_root, role_file
        self._key = key_in(settings.key_file)
        self._urls = tuple(dict.fromkeys([*settings.urls, *others]))
        self.is_unsure = bool(settings.urls) and not alone
        self.set_back = ""
        """Why this log is not all that this home has vouched for: it was restored from a backup."""
        self._compared = set(self._urls) if alone else set[str]()
        self.fenced: RegionRole | None = None
        self._told = False

    async def look(self) -> None:
        """Once: `is_unsure` and `fenced` may be others after it."""
        async with AsyncExitStack() as stack:
            peers = [
                await stack.enter_async_context(
                    Peer(url, self._key, wait_s_max=self._settings.timeout_s)
                )
                for url in self._urls
            ]
            await self._look(Lookout(peers, self._root, self._settings.timeout_s), peers)

    async def run(self) -> RegionRole:
        """Look regularly until there is a higher epoch; the role that this registry then has."""
        async with AsyncExitStack() as stack:
            peers = [
                await stack.enter_async_context(
                    Peer(url, self._key, wait_s_max=self._settings.timeout_s)
                )
                for url in self._urls
            ]
            lookout = Lookout(peers, self._root, self._settings.timeout_s)
            while self.fenced is None:
                await asyncio.sleep(self._settings.look_s)
                await self._look(lookout, peers)
        return self.fenced

    async def _look(self, lookout: Lookout, peers: Sequence[Peer]) -> None:
        try:
            await self._root.walk(self._own_root)
        except HybridgeError as error:  # its own store has lost one; the peers have them too
            log.warning("own_root_unreadable", extra={"why": str(error)})
        reached = await lookout.look()
        head = await asyncio.to_thread(self._catalog.head)
        if self._root.epoch > head.epoch:
            await self._fence(lookout, head.epoch)
            return
        for peer in peers:
            if peer.url in reached - self._compared:
                await self._compare(peer)
        if not self.is_unsure:
            return
        if reached & set(self._settings.urls):
            self.is_unsure = False
            log.info("home_confirmed", extra={"by": sorted(reached)})
        elif not self._told:
            self._told = True
            log.warning("home_unsure", extra={"peers": list(self._settings.urls)})

    async def _compare(self, peer: Peer) -> None:
        """Once with each: nobody has more of this home's log than it, unless it was set back."""
        try:
            answer = await peer.log(_END, 1, 0)
        except HybridgeError:  # it has heard of no home yet, or this key may not read its log
            return
        self._compared.add(peer.url)
        theirs, ours = answer.head, await asyncio.to_thread(self._catalog.head)
        if theirs.epoch != ours.epoch or not is_signed(self._root, answer):
            return
        if theirs.seq <= ours.seq:
            kept = await asyncio.to_thread(self._catalog.log, theirs.seq - 1, 1)
            if theirs.seq == 0 or kept[0].sha256 == theirs.sha256:
                return
        self.set_back = (
            f"{peer.url} has entry {theirs.seq} of this home, which ends at {ours.seq} or has "
            "another one there: it was restored from a backup. Promote that registry (hybridge "
            "registry promote) and rejoin this one, or give those entries up: start with --alone"
        )
        log.error("home_set_back", extra={"peer": peer.url, "theirs": theirs.seq, "ours": ours.seq})

    async def _fence(self, lookout: Lookout, epoch: int) -> None:
        higher = self._root.epoch
        # before anything else is waited for: from here on nothing is written
        self.fenced = RegionRole(role="fenced", epoch=epoch, homes=self._urls[:1])
        url = await lookout.home()
        self.fenced = RegionRole(
            role="fenced", epoch=epoch, homes=(url,), since=time.time(),
            why=f"a verified root says epoch {higher}: {url} was promoted",
        )  # fmt: skip
        await asyncio.to_thread(self._role_file.write, self.fenced)
        log.error(
            "fenced",
            extra={"epoch": epoch, "higher_epoch": higher, "home": url,
                   "do": "look at the entries kept aside, then: hybridge registry rejoin"},
        )  # fmt: skip


async def keep_aside(
    settings: PeerSettings,
    role: RegionRole,
    catalog: Catalog,
    root: TrustedRoot,
    role_file: RoleFile,
    folder: Path,
) -> RegionRole:
    """Write what only a fenced registry has to a file, as soon as its new home can be asked."""
    key = key_in(settings.key_file)
    while role.divergent is None:
        for url in role.homes:
            try:
                async with Peer(url, key, wait_s_max=settings.timeout_s) as peer:
                    role = await aside(peer, role, catalog, root, folder)
                await asyncio.to_thread(role_file.write, role)
                return role
            except HybridgeError as error:
                log.warning("not_kept_aside", extra={"home": url, "why": str(error)})
        await asyncio.sleep(settings.look_s)
    return role


async def aside(
    peer: Peer, role: RegionRole, catalog: Catalog, root: TrustedRoot, folder: Path
) -> RegionRole:
    """Once. Raises what `peer` does, and `Unavailable` where nothing can be written."""
    await root.walk(peer.root)
    fork = await fork_of(catalog, peer, root)
    path, count = await asyncio.to_thread(write_aside, catalog, fork, folder)
    log.warning(
        "kept_aside", extra={"file": str(path), "entries": count, "fork": fork, "home": peer.url}
    )
    return role.model_copy(update={"divergent": str(path), "fork_seq": fork})
