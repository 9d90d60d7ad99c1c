"""Changes to the jobs' database from the event loop: what comes while one group is written is the
next. No group waits for company, so a lone change costs one commit and many share one.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import Connection

from cloud.jobs.database import Change, JobDatabase
from shared.errors import HybridgeError, Overloaded, Unavailable

T = TypeVar("T")
_GROUP_MAX = 256
_READERS = 2


class Commits:
    """Belongs to one event loop. Its threads belong to it."""

    def __init__(
        self,
        database: JobDatabase,
        pending_max: int,
        *,
        writer: Executor | None = None,
        readers: Executor | None = None,
    ) -> None:
        """`writer` and `readers`: other executors than threads; `writer` must run one at a time."""
        self._database, self._pending_max = database, pending_max
        self._writer = writer or ThreadPoolExecutor(1, thread_name_prefix="jobs-write")
        self._readers = readers or ThreadPoolExecutor(_READERS, thread_name_prefix="jobs-read")
        self._pending: list[tuple[Change[Any], asyncio.Future[Any]]] = []
        self._writing: asyncio.Future[list[Any]] | None = None
        self._closed = False
        self.up = True
        """Whether the last commit succeeded."""

    async def change(self, change: Change[T]) -> T:
        """Commit a change; it is made although the caller is cancelled.

        Raises `Unavailable`, `Overloaded` while `pending_max` wait, and what the change itself does.
        """
        if self._closed:
            raise Unavailable("this server is shutting down; send it again")
        if len(self._pending) >= self._pending_max:
            raise Overloaded(f"{self._pending_max} changes to jobs already wait for the disk", 1.0)
        loop = asyncio.get_running_loop()
        made: asyncio.Future[T] = loop.create_future()
        self._pending.append((change, made))
        if len(self._pending) == 1 and self._writing is None:
            loop.call_soon(self._write)
        return await made

    async def read(self, look: Callable[[Connection], T]) -> T:
        """Raises `Unavailable`, and what `look` itself does."""
        if self._closed:
            raise Unavailable("this server is shutting down; send it again")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._readers, self._database.read, look)

    def close(self) -> None:
        """Nothing more is taken; the group that is being written is written to its end."""
        self._closed = True
        for _, made in self._pending:
            if not made.done():
                made.set_exception(Unavailable("this server is shutting down; send it again"))
        self._pending.clear()
        self._writer.shutdown()
        self._readers.shutdown()

    def _write(self) -> None:
        if not self._pending:  # closed in between
            return
        group, self._pending = self._pending[:_GROUP_MAX], self._pending[_GROUP_MAX:]
        writing = self._writing = asyncio.get_running_loop().run_in_executor(
            self._writer, self._database.write, [change for change, _ in group]
        )

        def done(written: "asyncio.Future[list[Any]]") -> None:
            self._writing = None
            if self._pending:
                self._write()
            error = None if written.cancelled() else written.exception()
            self.up = not isinstance(error, HybridgeError)
            for at, (_, made) in enumerate(group):
                if made.done():
                    continue
                if written.cancelled():
                    made.cancel()
                    continue
                outcome = error if error is not None else written.result()[at]
                if isinstance(outcome, BaseException):
                    made.set_exception(outcome)
                else:
                    made.set_result(outcome)

        writing.add_done_callback(done)
