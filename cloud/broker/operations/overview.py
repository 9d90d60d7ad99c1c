"""Reads a `Status` off the running broker, slice by slice: other work runs in between."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final, Protocol

from cloud.broker.operations.counts import Counts
from cloud.broker.operations.status import (
    Locate,
    SessionPage,
    Status,
    StoreFigures,
    Tally,
    session_page,
    status_of,
)
from cloud.broker.router.router import Router
from shared import __version__

SLICE: Final = 1_000
"""Sessions counted at a time: 0.4 ms."""


class Kicker(Protocol):
    """Ends a client's connection for the operator; the shell has one."""

    async def __call__(self, client_id: str, *, forget: bool) -> bool:
        """Send DISCONNECT 0x98 and close, and end the session too if `forget`.

        False if there is no such session.
        """


@dataclass(frozen=True, slots=True)
class Overview:
    """The broker as its operator sees it (`admin.Operable`); the shell makes one."""

    router: Router
    counts: Counts
    locate: Locate
    connections: Callable[[], int]
    """Open network connections."""
    clock: Callable[[], float]
    """The broker's clock, seconds."""
    started_at: float
    """On that clock."""
    kicker: Kicker
    store: StoreFigures | None = None

    async def status(self) -> Status:
        """Count everything. Sessions that come or go meanwhile may be missed or counted."""
        tally = Tally()
        sessions = iter(list(self.router.sessions.values()))
        while chunk := list(islice(sessions, SLICE)):
            tally.add(chunk)
            await asyncio.sleep(0)
        return status_of(
            self.router, tally, self.counts, self.store,
            connections=self.connections(), started_at=self.started_at, now=self.clock(),
            version=__version__,
        )  # fmt: skip

    def page(self, *, after: str = "", prefix: str = "", limit: int = 100) -> SessionPage:
        """Give one page of sessions; `session_page` says which, and what it raises."""
        now = self.clock()
        return session_page(self.router, self.locate, now, after=after, prefix=prefix, limit=limit)

    async def kick(self, client_id: str, *, forget: bool) -> bool:
        """Close a client's connection; False if there is no such session."""
        return await self.kicker(client_id, forget=forget)
