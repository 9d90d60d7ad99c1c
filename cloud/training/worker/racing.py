"""Work that something else may overtake: a request to stop, a lease that is over."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Overtaken(Exception):
    """The event came first; the work was cancelled, and has ended."""


async def unless(event: asyncio.Event, work: Coroutine[Any, Any, T]) -> T:
    """What comes of `work`, where it ends first. Raises `Overtaken`, and whatever the work raises."""
    working = asyncio.create_task(work, name="work")
    waiting = asyncio.create_task(event.wait(), name="event")
    try:
        await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
    finally:
        working.cancel()
        waiting.cancel()
        await asyncio.gather(working, waiting, return_exceptions=True)
    raise Overtaken


async def in_thread(
    cut: threading.Event, call: Callable[P, T], *args: P.args, **more: P.kwargs
) -> T:
    """As `asyncio.to_thread`, but whoever is cancelled has `cut` set and waits for the thread: it writes
    where others write next.
    """
    working = asyncio.create_task(asyncio.to_thread(call, *args, **more), name="thread")
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        cut.set()
        await asyncio.gather(working, return_exceptions=True)
        raise
