"""Work that something else may overtake: what is asked of a job, a lease that is over."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from cloud.training.worker.stopping import Bound, Request, Stop

T = TypeVar("T")


class Overtaken(Exception):
    """The event came first; the work was cancelled, and has ended."""


class Asked:
    """Why a job's run is to end: others ask it to, or its process is over a bound."""

    def __init__(self) -> None:
        self.by_others: Request | None = None
        self.over: Bound | None = None
        self.anything, self.others, self.lost = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @property
    def how(self) -> Stop | None:
        """The first one, but that it is lost above all."""
        return "lost" if self.by_others == "lost" else self.over or self.by_others

    def stop(self, how: Stop) -> None:
        match how:
            case "time" | "disk":
                if self.by_others is None:
                    self.over = self.over or how
            case "cancel" | "preempt" | "shutdown" | "lost":
                if self.by_others is None or how == "lost":
                    self.by_others = how
                self.others.set()
        if how == "lost":
            self.lost.set()
        self.anything.set()


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """What comes of `work`, where it ends first. Raises `Overtaken`, and whatever the work raises."""
    if event.is_set():
        work.close()
        raise Overtaken
    working = asyncio.create_task(work, name="work")
    try:
        await first(working, event)
        if working.done():
            return working.result()
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    raise Overtaken


async def first(
    working: asyncio.Task[Any], *events: asyncio.Event, within_s: float | None = None
) -> None:
    """Until it is done, or one of them has come, or the time is over."""
    waiting = [asyncio.create_task(event.wait(), name="event") for event in events]
    try:
        await asyncio.wait(
            [working, *waiting], timeout=within_s, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
