"""Threads that may hang: a store or a database behind them answers when it likes."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Daemons(ThreadPoolExecutor):
    """For asyncio, which takes no other kind: a thread of its own for each call. One that hangs keeps none
    from its thread, and the process from its end neither.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future = Future[T]()

        def work() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001  whoever asked is told
                future.set_exception(error)
            else:
                future.set_result(result)

        future.set_running_or_notify_cancel()
        threading.Thread(target=work, name="daemon", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nobody is waited for."""


class Threads:
    """Those in one job's folder. Whoever waits for one and is cancelled leaves it at work: the job's end is
    told first.
    """

    def __init__(self) -> None:
        self.cut = threading.Event()
        """Nobody wants any more what they bring."""
        self._at_work: set[asyncio.Task[Any]] = set()

    async def call(self, call: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """As `asyncio.to_thread`."""
        working = asyncio.create_task(asyncio.to_thread(call, *args, **more), name="thread")
        self._at_work.add(working)
        working.add_done_callback(self._ended)
        await asyncio.wait([working])
        return working.result()

    async def settled(self) -> None:
        """Cut; and none of them is in the folder any more."""
        self.cut.set()
        while self._at_work:
            await asyncio.wait(self._at_work)

    def _ended(self, working: asyncio.Task[Any]) -> None:
        self._at_work.discard(working)
        if not working.cancelled():
            working.exception()  # whoever still waits for it is told
