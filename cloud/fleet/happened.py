"""The head of the fleet's log, for those who wait for its next line."""

import asyncio
import contextlib

from cloud.fleet.devices import Fleet
from shared.errors import Unavailable


class Happened:
    """`run` looks at the log when it is told to, once for everybody who waits."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._look, self._moved = asyncio.Event(), asyncio.Event()
        self.head = 0

    def look(self) -> None:
        """Something was written, perhaps."""
        self._look.set()

    async def run(self) -> None:
        while True:
            with contextlib.suppress(Unavailable):  # the next write says that it is back
                head = await asyncio.to_thread(self._fleet.head)
                if head != self.head:
                    self.head = head
                    self._moved.set()
                    self._moved = asyncio.Event()
            await self._look.wait()
            self._look.clear()

    async def beyond(self, seq: int, within_s: float, ending: asyncio.Event) -> None:
        """Return when the log is beyond `seq`, when this process ends, or after `within_s`."""
        ends = asyncio.create_task(ending.wait())
        try:
            async with asyncio.timeout(within_s):
                while self.head <= seq and not ends.done():
                    moved = asyncio.create_task(self._moved.wait())
                    try:
                        await asyncio.wait({moved, ends}, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        moved.cancel()
        except TimeoutError:
            pass
        finally:
            ends.cancel()
