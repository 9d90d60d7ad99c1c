"""The way to the cloud: drives link, journal, quota and sender, all on the event loop.

A sample is published while its row is still on the way to the disk: nothing is promised before the
commit, and the round trip does not wait for it. Answers are handled where they arrive.
"""

import asyncio
import logging
import math
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import assert_never, get_args

from edge.answers import Answer
from edge.journal.journal import Journal
from edge.journal.rows import Pending
from edge.journal.writes import Closed
from edge.routing.calibrations import Calibrations
from edge.routing.fusion import check_labels, final_answer
from edge.telemetry.counters import Counters
from edge.uplink.courier import Courier, Letter
from edge.uplink.outbox import Outbox
from edge.uplink.passenger import Passenger
from edge.uplink.presence import presence
from edge.uplink.quota import Quota
from edge.uplink.sender import Limits, Sender
from edge.uplink.strays import Strays
from edge.uplink.terms import Terms
from shared import topics
from shared.bundle.manifest import Manifest
from shared.errors import Disconnected, Malformed, TooLarge, Unavailable
from shared.ids import SampleId
from shared.mqtt.link import Delivery, Link
from shared.mqtt.settings import LinkSettings, Will
from shared.wire.envelope import (
    MESSAGE_BYTES_MAX,
    CloudAnswer,
    Refusal,
    RefusalCode,
    pack_escalation,
    unpack_downlink,
)

log = logging.getLogger(__name__)

_RETRY_AFTER_S_MAX = 3600.0
_TIMER_S_MIN = 0.001
_OFFLINE_S_MAX = 1.0
_SEE_ACL = "the broker refuses our messages; see its ACL"
_REFUSALS = frozenset(get_args(RefusalCode))


class Uplink:
    def __init__(
        self,
        terms: Terms,
        link: LinkSettings,
        journal: Journal,
        quota: Quota,
        on_final: Callable[[Answer], None],
        counters: Counters,
        rng: random.Random,
    ) -> None:
        self._terms, self._journal = terms, journal
        self._calibrations = Calibrations()
        self._calibrations.learn(terms.manifest)
        self._on_final, self._counters = on_final, counters
        self._sender = Sender(terms.limits, rng, journal.now())
        self._stray = Strays(counters, journal.now).count
        self._outbox = Outbox(journal, quota, self._sender, on_final, counters, self._stray)
        self._timer: asyncio.TimerHandle | None = None
        self._passenger: Passenger | None = None
        self.on_cloud: Callable[[Pending, CloudAnswer, float], None] = lambda *_: None
        """Is told each answer of the cloud, and when its sample came by the agent's clock."""
        self._topic = topics.escalations(terms.device)
        self._expiry_s = math.ceil(terms.limits.answer_timeout_s)  # then it is sent again
        self._settings, self._courier = link, Courier()
        self._link = self._opened()

    def _opened(self, *more: str) -> Link:
        return Link(
            self._settings,
            subscriptions=(topics.answers(self._terms.device), *more),
            on_delivery=self._received,
            on_up=self._came_up,
            on_down=lambda: self._counters.add("link_lost"),
            will=Will(*self._said(online=False)),
        )

    def carry(self, passenger: Passenger) -> None:
        """Take somebody along; before `run`."""
        self._passenger = passenger
        self._link = self._opened(*passenger.subscriptions)

    @property
    def up(self) -> bool:
        return self._link.up

    @property
    def depth(self) -> tuple[int, int]:
        """Rows and bytes that wait for an answer."""
        return self._outbox.depth

    def restore(self) -> None:
        """Take over what an earlier process left in the outbox; before anything is submitted."""
        self._outbox.restore()

    async def run(self) -> None:
        """Until `drain` has ended."""
        self._pump()
        await self._link.run()

    async def drain(self) -> None:
        """Say that this device leaves, then leave; what is unanswered waits on disk."""
        if self._link.room:
            await asyncio.wait([self._say(online=False)], timeout=_OFFLINE_S_MAX)
        if self._timer is not None:
            self._timer.cancel()
        self._link.drain()

    def serve(self, manifest: Manifest) -> None:
        """Another version answers from now on; samples that wait keep the calibration of theirs."""
        self._terms = replace(self._terms, manifest=manifest)
        self._calibrations.learn(manifest)
        if self._link.room:
            self._say(online=True)

    def send(self, letter: Letter) -> bool:
        """Of the fleet: leaves when the window has room; whether it takes an unsent one's place."""
        replaced = self._courier.put(letter)
        self._post()
        return replaced

    def retune(self, limits: Limits) -> None:
        """Other budgets from now on; what was spent stays spent."""
        self._terms = replace(self._terms, limits=limits)
        self._sender.retune(limits, self._journal.now())
        self._pump()

    def submit(self, pending: Pending) -> None:
        """Take a sample that was just recorded as opened; it may be on the wire on return."""
        full_s = self._terms.deadlines.full_ms / 1000
        self._outbox.admit(pending, self._arrived(pending) + full_s)
        if self._link.room or self._timer is None:
            self._pump()  # otherwise the link's next event or the timer does, for every row at once

    def _pump(self) -> None:
        now = self._journal.now()
        self._outbox.expire(now)
        self._post()
        while self._link.room and (sample := self._sender.next(now)) is not None:
            if not self._publish(sample, now):
                break
        self._arm(now)

    def _publish(self, sample: SampleId, now: float) -> bool:
        if (pending := self._outbox.pending(sample)) is None:
            return True
        until = pending.deadline_s
        if self._sender.fresh(sample, now):
            until = self._arrived(pending) + self._terms.deadlines.full_ms / 1000
        left_ms = max(int((until - now) * 1000), 0)
        message = pack_escalation(replace(pending.escalation, budget_ms=left_ms))
        if len(message) > MESSAGE_BYTES_MAX:
            self._outbox.give_up(sample, "too_large")
            return True
        try:
            acknowledged = self._link.publish(self._topic, message, expiry_s=self._expiry_s)
        except Unavailable:
            return False  # the link went down since `room` was read; its return pumps again
        self._sender.sent(sample, len(message), now)
        self._counters.add("published")
        self._counters.add("published_bytes", len(message))
        acknowledged.add_done_callback(partial(self._acknowledged, sample))
        return True

    def _post(self) -> None:
        if (letter := self._courier.next()) is None or not self._link.room:
            return
        try:
            acknowledged = self._link.publish(
                letter.topic, letter.payload, retain=letter.retain, expiry_s=letter.expiry_s
            )
        except Unavailable:
            return
        self._courier.sent(letter)
        self._counters.add("fleet_published_bytes", len(letter.payload))
        acknowledged.add_done_callback(self._posted)

    def _posted(self, acknowledged: "asyncio.Future[int]") -> None:
        self._courier.settled()
        with suppress(Disconnected):
            if (reason := acknowledged.result()) >= 0x80:
                self._stray(f"puback_{reason:#04x}", _SEE_ACL)
            self._pump()

    def _acknowledged(self, sample: SampleId, acknowledged: "asyncio.Future[int]") -> None:
        try:
            reason = acknowledged.result()
        except Disconnected:
            self._sender.unsent(sample)
            return
        was_served = self._sender.served
        if why := self._sender.acknowledged(sample, reason, self._journal.now()):
            self._outbox.give_up(sample, why)
        if was_served != self._sender.served:
            log.warning("cloud_serves_again" if self._sender.served else "nobody_serves")
        if reason >= 0x80:
            self._stray(f"puback_{reason:#04x}", _SEE_ACL)
        self._pump()

    def _arm(self, now: float) -> None:
        """Wake up when something is due that no event will announce."""
        due = [self._outbox.expires_at()]
        if self._link.room:
            due.append(self._sender.due_at(now))
        wait_s = min((at - now for at in due if at is not None), default=None)
        if wait_s is None:
            return
        at = (loop := asyncio.get_running_loop()).time() + max(wait_s, _TIMER_S_MIN)
        if self._timer is None or self._timer.cancelled() or at < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self._timed)

    def _timed(self) -> None:
        self._timer = None
        self._pump()

    def _came_up(self, session_kept: bool) -> None:
        self._sender.connected(session_kept=session_kept, now=self._journal.now())
        self._say(online=True)
        if self._passenger is not None:
            self._passenger.came_up()
        self._pump()

    def _received(self, delivery: Delivery) -> None:
        if self._passenger is not None and delivery.topic in self._passenger.subscriptions:
            self._passenger.received(delivery)
            return
        try:
            self._apply(unpack_downlink(delivery.payload))
        except (Malformed, TooLarge) as error:
            self._stray("malformed_downlink", str(error))
        delivery.ack()
        self._pump()

    def _apply(self, downlink: CloudAnswer | Refusal) -> None:
        if downlink.id not in self._sender:
            self._stray("stray_answer", f"{downlink.id} waits for no answer; answered already?")
            return
        match downlink:
            case CloudAnswer():
                self._finish(downlink)
            case Refusal():
                self._refused(downlink)
            case _:
                assert_never(downlink)

    def _finish(self, cloud: CloudAnswer) -> None:
        check_labels(cloud, self._terms.manifest.labels)
        if (pending := self._outbox.pending(cloud.id)) is None:
            return
        arrived = self._arrived(pending)
        latency_ms = (self._journal.now() - arrived) * 1000
        answer = final_answer(
            pending, cloud, self._calibrations.of(pending.escalation.model_version), fusion=self._terms.fusion,
            latency_ms=latency_ms, uplink_bytes=self._outbox.forget(cloud.id),
        )  # fmt: skip
        self._journal.record(Closed(answer))
        self._counters.add("answered_by_cloud")
        if latency_ms > self._terms.deadlines.full_ms:
            self._counters.add("full_deadline_missed")
        self.on_cloud(pending, cloud, arrived)
        self._on_final(answer)

    def _refused(self, refusal: Refusal) -> None:
        now = self._journal.now()
        self._counters.add("refused_by_cloud")
        if refusal.code == "too_late" and self._sender.hurried(refusal.id):
            self._sender.delay(refusal.id, 0.0, now)  # the asynchronous deadline is still ahead
        elif refusal.retry_after_ms is not None:
            delay_s = min(refusal.retry_after_ms / 1000, _RETRY_AFTER_S_MAX)
            self._sender.delay(refusal.id, delay_s, now)
        else:
            code = refusal.code if refusal.code in _REFUSALS else "other"
            self._stray(f"refused_{code}", refusal.message)
            self._outbox.give_up(refusal.id, f"refused_{code}")

    def _arrived(self, pending: Pending) -> float:
        return pending.deadline_s - self._terms.deadlines.asynchronous_s

    def _say(self, *, online: bool) -> "asyncio.Future[int]":
        return self._link.publish(*self._said(online=online), retain=True)

    def _said(self, *, online: bool) -> tuple[str, bytes]:
        return topics.state(self._terms.device), presence(self._terms.manifest, online=online)
