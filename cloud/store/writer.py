"""One thread that writes feedback rows in groups: what came in while it committed goes next.

While the database is away the rows stay here, in memory and bounded, and are lost with the process
(`cloud/ingest/inbox.py` says why answers and acknowledgements do not wait for them).
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from cloud.store.feedback import FeedbackTable, Written
from cloud.store.sample_row import Feedback
from shared.errors import Overloaded, Refused, Unavailable

log = logging.getLogger(__name__)

_GROUP_MAX = 512  # rows in a commit: 100 already reach the plateau
_GROUP_S = 0.02  # what a commit waits for company
_RETRY_S_MIN, _RETRY_S_MAX = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class _Pending:
    row: Feedback
    stored: "asyncio.Future[None]"


class FeedbackWriter:
    """`put` belongs to the event loop that is running when `run` starts."""

    def __init__(
        self,
        table: FeedbackTable,
        *,
        pending_max: int,
        on_written: Callable[[Written], None] = lambda _written: None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        self._table, self._on_written, self._on_failure = table, on_written, on_failure
        self._pending: queue.Queue[_Pending | None] = queue.Queue(pending_max)
        self._stop = threading.Event()
        self._up = True

    @property
    def up(self) -> bool:
        """Whether the last commit succeeded."""
        return self._up

    def put(self, row: Feedback) -> "asyncio.Future[None]":
        """The future is done once the row is committed; it fails with `Refused` for a bad row.

        Raises `Overloaded` while `pending_max` rows wait.
        """
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._pending.put_nowait(_Pending(row, stored))
        except queue.Full as error:
            raise Overloaded(f"{self._pending.maxsize} feedback rows already wait") from error
        return stored

    async def run(self) -> None:
        """Write until `drain`; a fault of ours in the thread ends this with its exception."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def main() -> None:
            outcome: BaseException | None = None
            try:
                self._write_groups(loop)
            except BaseException as error:  # noqa: BLE001  handed to the event loop
                outcome = error
            loop.call_soon_threadsafe(_end, ended, outcome)

        thread = threading.Thread(target=main, name="feedback-writer", daemon=True)
        thread.start()
        try:
            await ended
        finally:
            self.drain()

    def drain(self) -> None:
        """Take what is already here to the database, then end; gives up at the first failure."""
        self._stop.set()
        with suppress(queue.Full):  # not asleep then: it looks at `_stop` after this group
            self._pending.put_nowait(None)

    def _write_groups(self, loop: asyncio.AbstractEventLoop) -> None:
        while (group := self._next_group()) is not None:
            if group and not self._write_until_done(loop, group):
                return

    def _next_group(self) -> list[_Pending] | None:
        """None at the end."""
        if self._stop.is_set() and self._pending.empty():
            return None
        first = self._pending.get()
        if first is None:
            return []
        self._stop.wait(_GROUP_S)  # answers do not wait for this, and each commit costs them a core
        group = [first]
        with suppress(queue.Empty):
            while len(group) < _GROUP_MAX and (more := self._pending.get_nowait()) is not None:
                group.append(more)
        return group

    def _write_until_done(self, loop: asyncio.AbstractEventLoop, group: list[_Pending]) -> bool:
        retry_s = _RETRY_S_MIN
        while True:
            try:
                self._write(loop, group)
            except Unavailable as error:
                self._went_down(loop, error)
                if self._stop.wait(retry_s):
                    self._give_up(loop, group)
                    return False
                retry_s = min(retry_s * 2, _RETRY_S_MAX)
            else:
                return True

    def _give_up(self, loop: asyncio.AbstractEventLoop, group: list[_Pending]) -> None:
        rows = list(group)
        with suppress(queue.Empty):
            while True:
                if (more := self._pending.get_nowait()) is not None:
                    rows.append(more)
        lost = Unavailable("the feedback store was away when this process ended")
        log.error("feedback_lost", extra={"rows": len(rows), "why": str(lost)})
        loop.call_soon_threadsafe(_settle, rows, lost)

    def _write(self, loop: asyncio.AbstractEventLoop, group: list[_Pending]) -> None:
        try:
            written = self._table.write([pending.row for pending in group])
        except Refused as error:
            self._came_up()
            if len(group) == 1:
                log.warning("feedback_refused", extra={"why": str(error)[:300]})
                loop.call_soon_threadsafe(_settle, group, error)
                return
            for pending in group:  # the row that is to blame fails alone
                self._write(loop, [pending])
            return
        self._came_up()  # first, so that whoever hears of the commit finds the store up
        loop.call_soon_threadsafe(self._committed, group, written)

    def _committed(self, group: list[_Pending], written: Written) -> None:
        self._on_written(written)
        _settle(group, None)

    def _went_down(self, loop: asyncio.AbstractEventLoop, error: Unavailable) -> None:
        loop.call_soon_threadsafe(self._on_failure)
        if self._up:
            self._up = False
            log.error("feedback_store_down", extra={"why": str(error)[:500]})

    def _came_up(self) -> None:
        if not self._up:
            self._up = True
            log.info("feedback_store_up")


def _settle(group: list[_Pending], error: Exception | None) -> None:
    for pending in group:
        if pending.stored.done():
            continue
        if error is None:
            pending.stored.set_result(None)
        else:
            pending.stored.set_exception(error)


def _end(ended: "asyncio.Future[None]", error: BaseException | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)
