"""Hand MQTT deliveries to the desk: read, answer, store, and only then acknowledge.

The broker bounds what is in hand (`receive_max`). Copies of one sample that are in hand at once
share one run; each still gets its reply, because the link may have taken the first one's away.

No answer is lost: until its device has it, the escalation waits in the device's outbox, whatever
happens here. Feedback, which only training reads, may be lost, because an answer waits for no
commit (a commit gathers for 20 ms, several times what an answer takes):
- killed after an answer left and before its row is on disk, this worker leaves the delivery
  unacknowledged. The embedded broker hands it to another worker, which stores it; Mosquitto drops
  it with the dead session. The device does not ask again: it has its answer.
- while the store is down or full, deliveries are acknowledged without their rows (`unstored`), or
  the broker would soon send no more, and nobody would be answered. The rows wait in memory; what
  finds no room there, or waits when the process ends, is counted or logged as lost.
"""

import asyncio
import logging
import time
from typing import Protocol

from cloud.ingest.decode import Received, Unreadable, decode
from cloud.ingest.desk import Desk
from cloud.ingest.downlink import Downlink as Replies
from cloud.monitoring.metrics import Metrics
from cloud.store.sample_row import Feedback, Key
from shared.errors import Overloaded, Refused, Unavailable
from shared.mqtt.link import NO_SUBSCRIBERS, Delivery
from shared.topics import answers
from shared.wire.envelope import Downlink, Refusal, pack_downlink

log = logging.getLogger(__name__)

_STORE_S_MAX = 2.0  # a commit takes milliseconds; past this a delivery stops waiting for its row
_REFUSED_BY_BROKER = 0x80  # MQTT 5.0, section 2.4: reason codes from here on are failures


class Stores(Protocol):
    """The part of `FeedbackWriter` that is needed here."""

    @property
    def up(self) -> bool: ...

    def put(self, row: Feedback) -> "asyncio.Future[None]": ...


class _InHand:
    """One sample, however many copies of it came; `stored` counts once there is a reply."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.reply: asyncio.Future[Downlink] = loop.create_future()
        self.stored: asyncio.Future[None] = loop.create_future()


class Inbox:
    def __init__(self, desk: Desk, replies: Replies, store: Stores, metrics: Metrics) -> None:
        self._desk, self._replies, self._store, self._metrics = desk, replies, store, metrics
        self._samples: dict[Key, _InHand] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._logged: set[str] = set()
        self._closed = False

    @property
    def in_hand(self) -> int:
        return len(self._tasks)

    def take(self, delivery: Delivery) -> None:
        """The link's handler. Once drained, deliveries stay unacknowledged, for another worker."""
        if self._closed:
            return
        self._metrics.received.inc()
        task = asyncio.get_running_loop().create_task(self._handle(delivery))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        self._closed = True

    async def finish(self) -> None:
        """Wait for everything taken to be answered, stored and acknowledged."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _handle(self, delivery: Delivery) -> None:
        try:
            read = decode(delivery.topic, delivery.payload)
            if isinstance(read, Unreadable):
                await self._refuse(read)
            else:
                await self._apply(read)
        except Unavailable:
            self._metrics.unacknowledged.inc()
            return
        except Exception:  # a bug: just as bad the next time, and it must not fill `receive_max`
            self._metrics.failures.inc()
            log.exception("delivery_failed", extra={"topic": delivery.topic})
        delivery.ack()

    async def _refuse(self, read: Unreadable) -> None:
        """It would be just as bad the next time, so it is acknowledged."""
        self._metrics.malformed[read.kind].inc()
        if read.kind not in self._logged:
            self._logged.add(read.kind)
            log.warning(
                "delivery_refused",
                extra={"kind": read.kind, "device": read.device, "why": read.why},
            )
        if read.device is not None and read.id is not None:
            self._metrics.refused["malformed"].inc()
            refusal = Refusal(read.id, "malformed", read.why, None)
            await self._replies.send(answers(read.device), pack_downlink(refusal))

    async def _apply(self, received: Received) -> None:
        key = received.device, received.escalation.id
        if (sample := self._samples.get(key)) is not None:
            self._metrics.duplicates.inc()
            await self._send(received, await asyncio.shield(sample.reply))
            await self._stored(sample, time.perf_counter())
            return
        sample = self._samples[key] = _InHand()
        try:
            await self._first(received, sample)
        finally:
            del self._samples[key]

    async def _first(self, received: Received, sample: _InHand) -> None:
        """Whatever happens, the copies that wait for this one are told."""
        try:
            reply, feedback = await self._desk.reply(received, time.monotonic())
        except BaseException:
            sample.reply.cancel()
            raise
        sample.reply.set_result(reply)
        began = time.perf_counter()
        sample.stored = self._put(feedback)
        try:
            await self._send(received, reply)
            self._metrics.stage["publish"].observe(time.perf_counter() - began)
        finally:  # the row is on its way, whether the answer left or not
            await self._stored(sample, began)
        if feedback is not None:
            self._metrics.answered.inc()

    async def _stored(self, sample: _InHand, began: float) -> None:
        try:
            async with asyncio.timeout(_STORE_S_MAX if self._store.up else 0):
                await asyncio.shield(sample.stored)
        except TimeoutError:
            self._metrics.unstored.inc()
        except Refused:
            self._metrics.store_rejected.inc()  # logged by the writer; it would never fit
        else:
            self._metrics.stage["store"].observe(time.perf_counter() - began)

    def _put(self, feedback: Feedback | None) -> "asyncio.Future[None]":
        if feedback is not None:
            try:
                return self._store.put(feedback)
            except Overloaded:  # the store has been away for long, and its answer must leave
                self._metrics.feedback_lost.inc()
        nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        nothing.set_result(None)
        return nothing

    async def _send(self, received: Received, reply: Downlink) -> None:
        code = await self._replies.send(answers(received.device), pack_downlink(reply))
        if code >= _REFUSED_BY_BROKER or code == NO_SUBSCRIBERS:
            self._metrics.undelivered.inc()  # its device asks again, and gets the same answer
