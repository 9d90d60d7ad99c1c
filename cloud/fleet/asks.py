"""Questions to devices, and who waits for their answers; bounded."""

import asyncio
import secrets
from collections.abc import Callable

from shared.errors import DeadlineMissed, Disconnected, Overloaded, Unavailable
from shared.fleet.asking import Ask, Told
from shared.ids import device_id
from shared.topics import ask as ask_topic


class Asks:
    """`publish` gives the future of the broker's word (PUBACK's reason code)."""

    def __init__(
        self,
        publish: "Callable[[str, bytes], asyncio.Future[int]]",
        waiting_max: int,
        within_s: float,
    ) -> None:
        self._publish, self._waiting_max, self._within_s = publish, waiting_max, within_s
        self._waiting: dict[str, tuple[str, asyncio.Future[Told]]] = {}

    def awaits(self, device: str) -> bool:
        """Whether anybody waits for this device; others' answers need not be read."""
        return any(asked == device for asked, _ in self._waiting.values())

    async def logs(self, device: str, lines: int) -> Told:
        """The newest lines of the agent's log.

        Raises `Overloaded`, `Disconnected` without a broker, `DeadlineMissed` where none comes.
        """
        if len(self._waiting) >= self._waiting_max:
            raise Overloaded(f"{len(self._waiting)} questions to devices wait for answers", 2.0)
        ask = Ask(id=secrets.token_hex(8), what="logs", lines=lines)
        answer: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._waiting[ask.id] = device, answer
        try:
            async with asyncio.timeout(self._within_s):
                await self._publish(ask_topic(device_id(device)), ask.to_bytes())
                return await answer
        except TimeoutError as error:
            raise DeadlineMissed(
                f"{device} did not answer within {self._within_s:g} s; is it online, and new enough?"
            ) from error
        except Unavailable as error:
            raise Disconnected(f"the broker is not there: {error}; ask again", 2.0) from error
        finally:
            del self._waiting[ask.id]

    def told(self, device: str, told: Told) -> None:
        """What nobody asked this device is nothing."""
        asked, answer = self._waiting.get(told.id, (None, None))
        if asked == device and answer is not None and not answer.done():
            answer.set_result(told)
