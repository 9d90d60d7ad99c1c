"""To wait for an event, and not for ever."""

import asyncio
import contextlib


async def set_within(event: asyncio.Event, within_s: float) -> None:
    """Until it is set, or those seconds are over."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()
