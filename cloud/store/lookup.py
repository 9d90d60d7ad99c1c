"""Answers that were stored before. A new sample costs no query; the rest are asked in groups.

One query takes what one loop round brought, in a thread of its own while the next group collects,
as batches do.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from cloud.store.feedback import FeedbackTable
from cloud.store.sample_row import Key
from shared.wire.envelope import CloudAnswer

_Waiting = dict[Key, "asyncio.Future[CloudAnswer | None]"]


class AnswerLookup:
    def __init__(self, table: FeedbackTable) -> None:
        self._table = table
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="lookup")
        self._waiting: _Waiting = {}
        self._query: asyncio.Future[None] | None = None

    async def find(self, key: Key) -> CloudAnswer | None:
        """Raises `Unavailable` while the database is away."""
        if key[1] not in self._table.known:
            return None
        loop = asyncio.get_running_loop()
        found = self._waiting.get(key)
        if found is None:
            found = self._waiting[key] = loop.create_future()
            if len(self._waiting) == 1 and self._query is None:
                loop.call_soon(self._ask)
        return await asyncio.shield(found)

    def close(self) -> None:
        self._thread.shutdown(wait=False)

    def _ask(self) -> None:
        group, self._waiting = self._waiting, {}
        query = asyncio.get_running_loop().run_in_executor(
            self._thread, self._table.find, list(group)
        )
        self._query = query  # type: ignore[assignment]

        def done(query: "asyncio.Future[dict[Key, CloudAnswer]]") -> None:
            self._query = None
            if self._waiting:
                self._ask()
            _settle(group, query)

        query.add_done_callback(done)


def _settle(group: _Waiting, query: "asyncio.Future[dict[Key, CloudAnswer]]") -> None:
    if query.cancelled():
        for waiting in group.values():
            waiting.cancel()
        return
    error = query.exception()
    for key, waiting in group.items():
        if waiting.done():
            continue
        if error is not None:
            waiting.set_exception(error)
        else:
            waiting.set_result(query.result().get(key))
