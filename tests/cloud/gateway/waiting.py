"""Waiting for what another task will have done, round by round of the event loop."""

import asyncio
from collections.abc import Callable


async def until(done: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not done():  # noqa: ASYNC110  what is awaited has no event of its own
            await asyncio.sleep(0)
