"""What goes on when who asked for it has left, and keeps its turn until it ends."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Any, Final, TypeVar

from cloud.api.turns import Turns

Found = TypeVar("Found")
_UNDER_WAY: Final[set["asyncio.Task[Any]"]] = set()
"""A loop holds its tasks weakly: of one that nobody waits for nothing else need be left."""


async def to_its_end(
    turns: Turns, caller: str, work: Callable[[], Coroutine[object, object, Found]]
) -> Found:
    """What it gives. Raises `Overloaded`."""
    turn = ExitStack()
    turn.enter_context(turns.one(caller))
    working = asyncio.create_task(work())
    _UNDER_WAY.add(working)
    working.add_done_callback(_UNDER_WAY.discard)
    working.add_done_callback(lambda _: turn.close())
    return await asyncio.shield(working)


async def in_thread(turns: Turns, caller: str, work: Callable[[], Found]) -> Found:
    """As `to_its_end`: a thread cannot be cancelled."""
    return await to_its_end(turns, caller, lambda: asyncio.to_thread(work))
