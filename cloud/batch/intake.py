"""Messages of a topic into the buffer: acknowledged once they are synced, and not before.

While the buffer is full nothing is acknowledged, so the broker soon sends no more (MQTT 5.0,
section 4.9, flow control) and keeps what comes: its queue is bounded, too.
"""

import asyncio
import logging
from collections import deque

from cloud.batch.buffer import Buffer, Message
from cloud.batch.counts import NearLineCounts
from shared.errors import Unavailable
from shared.mqtt.link import Delivery

log = logging.getLogger(__name__)

_GROUP = 256  # messages in one commit
_AGAIN_S = 5.0  # after the disk refused or was full: another worker may have made room


class Intake:
    """`take` is the link's handler; at most its `receive_max` deliveries wait here."""

    def __init__(self, job: str, buffer: Buffer, bytes_max: int, counts: NearLineCounts) -> None:
        """`bytes_max` is of one message."""
        self._job, self._buffer, self._bytes_max, self._counts = job, buffer, bytes_max, counts
        self._waiting: deque[Delivery] = deque()
        self._changed = asyncio.Event()
        self._drained = False
        self._full = False

    def take(self, delivery: Delivery) -> None:
        size = len(delivery.payload)
        if not 0 < size <= self._bytes_max:  # would be just as bad the next time
            self._counts.messages.labels(self._job, "too_large" if size else "empty").inc()
            delivery.ack()
            return
        self._waiting.append(delivery)
        if not self._full:
            self._changed.set()

    def room_was_made(self) -> None:
        self._full = False
        self._changed.set()

    def lost(self) -> None:
        """The link is down: what waits comes again."""
        self._waiting.clear()

    def drain(self) -> None:
        self._drained = True
        self._changed.set()

    async def run(self) -> None:
        """Until `drain`; what is not acknowledged then stays with the broker."""
        while not self._drained:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._keep()
            except Unavailable as error:
                log.warning("nearline_buffer_failed", extra={"job": self._job, "why": str(error)})
                asyncio.get_running_loop().call_later(_AGAIN_S, self._changed.set)

    async def _keep(self) -> None:
        while self._waiting and not self._drained:
            group = [self._waiting[at] for at in range(min(_GROUP, len(self._waiting)))]
            messages = [Message(one.topic, bytes(one.payload)) for one in group]
            put = await asyncio.to_thread(self._buffer.put, messages)
            for delivery in group[: put.taken]:
                delivery.ack()
                if self._waiting and self._waiting[0] is delivery:  # else the link was lost
                    self._waiting.popleft()
            self._counts.buffered.labels(self._job).set(put.held)
            self._counts.messages.labels(self._job, "copy").inc(put.copies)
            self._counts.messages.labels(self._job, "kept").inc(put.taken - put.copies)
            if put.taken < len(group):
                self._full = True
                asyncio.get_running_loop().call_later(_AGAIN_S, self.room_was_made)
                self._counts.buffer_full.labels(self._job).inc()
                log.warning("nearline_buffer_full", extra={"job": self._job})
                return
