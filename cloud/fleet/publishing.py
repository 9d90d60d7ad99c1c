"""Desired state from the store to the broker. The store is the queue: what it says is unpublished is
published, and said to be when the broker has it; so a kill at any point publishes something twice
at worst, which changes nothing on a device.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Sequence
from typing import Final, Protocol

from cloud.fleet.broker_memory import OWN_NAME, BrokerMemory
from cloud.fleet.desired_state import Desired, section_of
from cloud.fleet.devices import Fleet
from cloud.fleet.metrics import FleetMetrics
from shared.errors import Disconnected, HybridgeError, Unavailable
from shared.fleet.desired import SECTIONS
from shared.ids import DeviceId
from shared.logs import OncePer
from shared.topics import desired as desired_topic
from shared.topics import state as state_topic

log = logging.getLogger(__name__)

_PAGE: Final = 500
_REFUSED: Final = 0x80  # MQTT 5.0, section 2.4: reason codes from here on are failures
_AGAIN_S: Final = 2.0
_MARK: Final = b'{"online":true}'
_LOG_PERIOD_S: Final = 60.0


class Publishes(Protocol):
    """The part of `shared.mqtt.link.Link` that is needed here."""

    @property
    def up(self) -> bool: ...

    @property
    def room(self) -> int: ...

    def publish(
        self, topic: str, payload: bytes, *, expiry_s: int | None = None, retain: bool = False
    ) -> "asyncio.Future[int]": ...


class Publishing:
    """`run` until `drain`."""

    def __init__(self, fleet: Fleet, metrics: FleetMetrics) -> None:
        self._fleet, self._metrics = fleet, metrics
        self._link: Publishes | None = None
        self._memory = BrokerMemory()
        self._wanted, self._drained = asyncio.Event(), False
        self._said = OncePer(_LOG_PERIOD_S)
        self.is_published = True
        """Whether the broker has everything, as far as is known."""

    def through(self, link: Publishes) -> None:
        """The link, which needs its handlers, which need this first."""
        self._link = link

    def kick(self) -> None:
        """There may be something unpublished."""
        self._wanted.set()

    def link_up(self) -> None:
        self._memory.connected(time.monotonic())
        self.kick()

    def link_down(self) -> None:
        self._memory.lost()

    def own_message(self) -> None:
        self._memory.seen()

    def drain(self) -> None:
        self._drained = True
        self.kick()

    async def run(self) -> None:
        while not self._drained:
            again_s = None
            try:
                if not await self._round():
                    again_s = _AGAIN_S
            except Unavailable as error:  # the store is away; what it has stays unpublished
                self._say("store", str(error))
                again_s = _AGAIN_S
            due_s = self._memory.due_s(time.monotonic())
            if due_s is not None and again_s is None:
                again_s = due_s
            try:
                async with asyncio.timeout(again_s):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()

    async def everything(self) -> int:
        """Publish all desired state again; how many messages that is. Raises `Unavailable`."""
        count = await asyncio.to_thread(self._fleet.forget_published)
        self.kick()
        return count

    @property
    def connected(self) -> bool:
        return self._link is not None and self._link.up

    def clear(self, device: str) -> None:
        """Have the broker forget what it retained for a device that is removed. What stays there
        after a crash does nothing: nobody may connect as that device.
        """
        for section in SECTIONS:
            with contextlib.suppress(Unavailable):
                if self._link is not None:
                    self._link.publish(desired_topic(DeviceId(device), section), b"", retain=True)

    def send(self, topic: str, payload: bytes) -> "asyncio.Future[int]":
        """Anything else to a device. Raises `Disconnected` or `Overloaded`."""
        if self._link is None:
            raise Disconnected("there is no link to the broker yet")
        return self._link.publish(topic, payload)

    async def _round(self) -> bool:
        """Whether it came to an end; False: try again soon."""
        while (link := self._link) is not None and link.up:  # the next connection kicks
            now = time.monotonic()
            forgot = self._memory.next_step(now, is_published=False) == "all"
            if forgot and (count := await self.everything()):  # 0: a new region
                log.warning("broker_forgot", extra={"messages": count})
            waiting = await asyncio.to_thread(self._fleet.unpublished, _PAGE)
            self.is_published = not waiting
            if waiting:
                if not await self._publish(waiting):
                    return False
            elif self._memory.next_step(now, is_published=True) == "mark":
                return await self._mark(link)
            else:
                break
        return True

    async def _mark(self, link: Publishes) -> bool:
        try:
            code = await link.publish(state_topic(DeviceId(OWN_NAME)), _MARK, retain=True)
        except Unavailable:
            return False
        self._memory.seen()
        if code >= _REFUSED:
            self._say("mark", f"the broker refused the fleet's own message: reason 0x{code:02x}")
        return True

    async def _publish(self, waiting: Sequence[tuple[str, Desired]]) -> bool:
        """Whether the broker took any of them."""
        link = self._link
        assert link is not None
        sent: list[tuple[tuple[str, Desired], asyncio.Future[int]]] = []
        for device, document in waiting:
            topic = desired_topic(DeviceId(device), section_of(document))
            try:
                while not link.room and link.up:
                    await _one_of([word for _, word in sent if not word.done()])
                word = link.publish(topic, document.to_bytes(), retain=True)
            except Unavailable:
                break
            sent.append(((device, document), word))
        if not sent:
            return not waiting
        await asyncio.wait([word for _, word in sent])
        published = [one for one, word in sent if _code(word) < _REFUSED]
        if published:
            done = [(device, section_of(d), d.generation) for device, d in published]
            await asyncio.to_thread(self._fleet.published, done)
            self._metrics.published.inc(len(done))
        for (device, _), word in sent:
            if word.exception() is None and _code(word) >= _REFUSED:
                self._metrics.not_published.inc()
                self._say("refused", f"{device}: the broker refused it: reason 0x{_code(word):02x}")
        return bool(published)  # of those that are left the next page tells

    def _say(self, kind: str, why: str) -> None:
        held_back = self._said.admits(kind, time.monotonic())
        if held_back is not None:
            log.warning(
                "not_published", extra={"kind": kind, "why": why, "more_since_last": held_back}
            )


def _code(word: "asyncio.Future[int]") -> int:
    """As a reason code; a lost link is a failure."""
    error = word.exception()
    if error is None:
        return word.result()
    if not isinstance(error, HybridgeError):
        raise error
    return _REFUSED


async def _one_of(words: "list[asyncio.Future[int]]") -> None:
    if not words:
        raise Disconnected("the window is full of other messages")
    await asyncio.wait(words, return_when=asyncio.FIRST_COMPLETED)
