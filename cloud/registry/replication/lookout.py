"""Asks the other registries for newer roots, regularly: so a higher epoch is heard of everywhere."""

import asyncio
import logging
from collections.abc import Sequence

from cloud.registry.replication.peer import Peer
from cloud.registry.replication.trusted_root import TrustedRoot
from shared.errors import HybridgeError, NotTrusted

log = logging.getLogger(__name__)


class Lookout:
    """`peers` are open."""

    def __init__(self, peers: Sequence[Peer], root: TrustedRoot, timeout_s: float) -> None:
        self._peers, self._root, self._timeout_s = peers, root, timeout_s
        self._silent: set[str] = set()
        self.refused = 0  # roots that did not verify
        self.newest_at = ""  # the URL that had the newest root

    async def look(self) -> frozenset[str]:
        """Ask each once; the URLs of those that answered. The trusted root may be newer after it."""
        answers = await asyncio.gather(*(self._ask(peer) for peer in self._peers))
        reached = frozenset(
            peer.url for peer, answered in zip(self._peers, answers, strict=True) if answered
        )
        silent = {peer.url for peer in self._peers} - reached
        for url in sorted(silent - self._silent):
            log.warning("peer_lost", extra={"url": url})
        for url in sorted(self._silent - silent):
            log.info("peer_back", extra={"url": url})
        self._silent = silent
        return reached

    async def _ask(self, peer: Peer) -> bool:
        """A peer whose root does not verify is none."""
        try:
            async with asyncio.timeout(self._timeout_s):
                if await self._root.walk(peer.root):
                    self.newest_at = peer.url
                    log.warning(
                        "newer_root", extra={"url": peer.url, "version": self._root.version,
                                             "epoch": self._root.epoch},
                    )  # fmt: skip
        except NotTrusted as error:
            self.refused += 1
            log.warning("root_refused", extra={"url": peer.url, "why": str(error)})
            return False
        except (HybridgeError, TimeoutError):
            return False
        return True

    async def home(self) -> str:
        """Which of them says that it is home; else the first that answers, else the first."""
        answering: list[str] = []
        for peer in self._peers:
            try:
                async with asyncio.timeout(self._timeout_s):
                    if await peer.is_home():
                        return peer.url
                    answering.append(peer.url)
            except (HybridgeError, TimeoutError):
                continue
        return (answering or [peer.url for peer in self._peers])[0]
