"""Waiting that a drain cuts short, and work that is kept off the event loop."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Offload(Protocol):
    """Runs blocking work elsewhere; `asyncio.to_thread`, or inline on virtual time."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class Pace:
    """One source's clock."""

    def __init__(self) -> None:
        self._draining = asyncio.Event()

    @property
    def draining(self) -> bool:
        return self._draining.is_set()

    def drain(self) -> None:
        self._draining.set()

    async def until(self, due: float) -> None:
        """Return at `due` on the loop's clock, or at once when draining; always yields once."""
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout_at(due):
                await self._draining.wait()
        except TimeoutError:
            pass
