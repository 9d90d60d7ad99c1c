"""The log as others pull it: signed where it ends, and held open until there is something new."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from cloud.registry.catalog.chain import head_of
from cloud.registry.documents import Entry, Head
from cloud.registry.replication.log_answer import LogAnswer
from cloud.registry.replication.signed_heads import SignedHeadFile
from shared.errors import Malformed, Unavailable

SignHead = Callable[[Head], str]
_LIMIT_MAX = 1000
_WAIT_S_MAX = 60.0
_LOOK_S = 1.0


class Log(Protocol):
    """What is asked of the catalog."""

    def head(self) -> Head: ...

    def log(self, after: int, limit: int) -> list[Entry]: ...


class ChangeLog:
    """Belongs to one event loop."""

    def __init__(
        self,
        catalog: Log,
        sign: SignHead | None,
        passed_on: SignedHeadFile,
        look_s: float = _LOOK_S,
    ) -> None:
        """`sign` None: a replica, which passes on what its home signed last. `look_s`: how often
        is looked for what another process wrote, while somebody waits.
        """
        self._look_s = look_s
        self._catalog, self._sign, self._passed_on = catalog, sign, passed_on
        self._news = asyncio.Event()
        self.newest: Head | None = None  # as last seen

    def changed(self) -> None:
        """Say that there are new entries."""
        self._news.set()
        self._news = asyncio.Event()  # for who asks from now on

    async def answer(self, after: int, limit: int, wait_s: float) -> LogAnswer:
        """Entries after that one, at most `limit`; waits up to `wait_s` for the first.

        Raises `Malformed` for numbers out of their bounds, `Unavailable` where nobody vouches.
        """
        if not (0 <= after < 2**53 and 1 <= limit <= _LIMIT_MAX and 0 <= wait_s <= _WAIT_S_MAX):
            raise Malformed(
                f"log: want after from 0, limit from 1 to {_LIMIT_MAX}, wait_s from 0 to "
                f"{_WAIT_S_MAX:g}"
            )
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_s
        while True:
            news = self._news  # before reading, so that nothing falls between
            answer = await asyncio.to_thread(self._read, after, limit)
            if answer.entries or answer.head.seq < after or loop.time() >= until:
                return answer
            await _first(news, min(until, loop.time() + self._look_s))

    def _read(self, after: int, limit: int) -> LogAnswer:
        entries = tuple(self._catalog.log(after, limit))
        if self._sign is not None:
            newest = self.newest = self._catalog.head()
            end = head_of(entries[-1]) if entries else newest
            # a home vouches for old entries too as who it is now
            head = end.model_copy(update={"epoch": newest.epoch})
            return LogAnswer(
                entries=entries, head=head, signature=self._sign(head), newest=newest.seq
            )
        signed = self._passed_on.read()
        if signed is None:
            raise Unavailable("this replica has heard of no home yet; ask the home for its log")
        known = tuple(entry for entry in entries if entry.seq <= signed.head.seq)
        if known and known[-1].seq < signed.head.seq:
            raise Unavailable(
                f"this replica can vouch for entry {signed.head.seq}, which is over {limit} away "
                f"from {after}; ask the home for its log"
            )
        return LogAnswer(
            entries=known, head=signed.head, signature=signed.signature,
            newest=max(signed.newest, signed.head.seq),
        )  # fmt: skip


async def _first(news: asyncio.Event, until: float) -> None:
    try:
        async with asyncio.timeout_at(until):
            await news.wait()
    except TimeoutError:
        return
