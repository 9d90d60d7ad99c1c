"""Work that something else may overtake: a request to stop, a lease that is over."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

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
