"""The way to the cloud: drives link, journal, quota and sender, all on the event loop.

A sample is published while its row is still on the way to the disk: nothing is promised before the
commit, and the round trip does not wait for it. Answers are handled where they arrive.
"""

import asyncio
import json
import logging
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import assert_never, get_args

from edge.answers import Answer
from edge.journal.journal import Journal
from edge.journal.rows import Damaged, Pending, waiting_of
from edge.journal.writes import Closed, GivenUp
from edge.routing.calibrations import Calibrations
from edge.routing.fusion import check_labels, final_answer
from edge.telemetry.counters import Counters
from edge.uplink.at_hand import AtHand
from edge.uplink.quota import Quota
from edge.uplink.sender import Sender
from edge.uplink.terms import Terms
from shared import topics
from shared.bundle.manifest import Manifest
from shared.errors import Disconnected, Malformed, TooLarge, Unavailable
from shared.ids import SampleId
from shared.logs import OncePer
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
_LOG_PERIOD_S = 60.0
_OFFLINE_S_MAX = 1.0
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
        self._terms, self._journal, self._quota = terms, journal, quota
        self._calibrations = Calibrations()
        self._calibrations.learn(terms.manifest)
        self._on_final, self._counters = on_final, counters
        self._sender = Sender(terms.limits, rng, journal.now())
        self._at_hand = AtHand(journal)
        self._timer: asyncio.TimerHandle | None = None
        self._once = OncePer(_LOG_PERIOD_S)
        self._topic = topics.escalations(terms.device)
        self._expiry_s = math.ceil(terms.limits.answer_timeout_s)  # then it is sent again
        self._link = Link(
            link,
            subscriptions=(topics.answers(terms.device),),
            on_delivery=self._received,
            on_up=self._came_up,
            on_down=lambda: counters.add("link_lost"),
            will=Will(topics.state(terms.device), self._state(online=False)),
        )
        journal.on_dropped = self._dropped

    @property
    def up(self) -> bool:
        return self._link.up

    @property
    def depth(self) -> tuple[int, int]:
        """Rows and bytes that wait for an answer."""
        return len(self._quota), self._quota.bytes

    def restore(self) -> None:
        """Take over what an earlier process left in the outbox; before anything is submitted."""
        for row in self._journal.outbox():
            self._sender.add(row, fresh_until=-math.inf)
            for pushed in self._quota.admit(row):
                self._give_up(pushed.id, "outbox_full")

    async def run(self) -> None:
        """Until `drain` has ended."""
        self._pump()
        await self._link.run()

    async def drain(self) -> None:
        """Say that this device leaves, then leave; what is unanswered waits on disk."""
        if self._link.room:
            said = self._link.publish(
                topics.state(self._terms.device), self._state(online=False), retain=True
            )
            await asyncio.wait([said], timeout=_OFFLINE_S_MAX)
        if self._timer is not None:
            self._timer.cancel()
        self._link.drain()

    def serve(self, manifest: Manifest) -> None:
        """Another version answers from now on; samples that wait keep the calibration of theirs."""
        self._terms = replace(self._terms, manifest=manifest)
        self._calibrations.learn(manifest)
        if self._link.room:
            self._link.publish(
                topics.state(self._terms.device), self._state(online=True), retain=True
            )

    def submit(self, pending: Pending) -> None:
        """Take a sample that was just recorded as opened; it may be on the wire on return."""
        row = waiting_of(pending)
        self._at_hand.keep(pending)
        self._sender.add(row, self._arrived(pending) + self._terms.deadlines.full_ms / 1000)
        for pushed in self._quota.admit(row):
            self._give_up(pushed.id, "outbox_full")
        if self._link.room or self._timer is None:
            self._pump()  # otherwise the link's next event or the timer does, for every row at once

    def _pump(self) -> None:
        now = self._journal.now()
        for expired in self._quota.expire(now):
            self._give_up(expired.id, "expired")
        while self._link.room and (sample := self._sender.next(now)) is not None:
            if not self._publish(sample, now):
                break
        self._arm(now)

    def _publish(self, sample: SampleId, now: float) -> bool:
        if (pending := self._pending(sample)) is None:
            return True
        deadlines = self._terms.deadlines
        until = pending.deadline_s
        if self._sender.fresh(sample, now):
            until = self._arrived(pending) + deadlines.full_ms / 1000
        left_ms = max(int((until - now) * 1000), 0)
        message = pack_escalation(replace(pending.escalation, budget_ms=left_ms))
        if len(message) > MESSAGE_BYTES_MAX:
            self._give_up(sample, "too_large")
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

    def _acknowledged(self, sample: SampleId, acknowledged: "asyncio.Future[int]") -> None:
        try:
            reason = acknowledged.result()
        except Disconnected:
            self._sender.unsent(sample)
            return
        was_served = self._sender.served
        if why := self._sender.acknowledged(sample, reason, self._journal.now()):
            self._give_up(sample, why)
        if was_served != self._sender.served:
            log.warning("cloud_serves_again" if self._sender.served else "nobody_serves")
        if reason >= 0x80:
            self._stray(f"puback_{reason:#04x}", "the broker refuses our messages; see its ACL")
        self._pump()

    def _arm(self, now: float) -> None:
        """Wake up when something is due that no event will announce."""
        due = [self._quota.expires_at()]
        if self._link.room:
            due.append(self._sender.due_at(now))
        wait_s = min((at - now for at in due if at is not None), default=None)
        if wait_s is None:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + max(wait_s, _TIMER_S_MIN)
        if self._timer is None or self._timer.cancelled() or at < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self._timed)

    def _timed(self) -> None:
        self._timer = None
        self._pump()

    def _came_up(self, session_kept: bool) -> None:
        self._sender.connected(session_kept=session_kept, now=self._journal.now())
        self._link.publish(topics.state(self._terms.device), self._state(online=True), retain=True)
        self._pump()

    def _received(self, delivery: Delivery) -> None:
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
        if (pending := self._pending(cloud.id)) is None:
            return
        latency_ms = (self._journal.now() - self._arrived(pending)) * 1000
        answer = final_answer(
            pending, cloud, self._calibrations.of(pending.escalation.model_version), fusion=self._terms.fusion,
            latency_ms=latency_ms, uplink_bytes=self._forget(cloud.id),
        )  # fmt: skip
        self._journal.record(Closed(answer))
        self._counters.add("answered_by_cloud")
        if latency_ms > self._terms.deadlines.full_ms:
            self._counters.add("full_deadline_missed")
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
            self._give_up(refusal.id, f"refused_{code}")

    def _give_up(self, sample: SampleId, reason: str) -> None:
        if (pending := self._pending(sample)) is not None:
            self._write_off(pending.answer, reason)

    def _pending(self, sample: SampleId) -> Pending | None:
        """None, and a line in the ledger, where the disk has spoilt the row."""
        pending = self._at_hand[sample]
        if isinstance(pending, Damaged):
            self._stray("outbox_row_damaged", f"{sample}: {pending.why}; check the disk")
            self._write_off(pending.answer, "damaged")
            return None
        return pending

    def _write_off(self, answer: Answer, reason: str) -> None:
        given_up = self._given_up(answer, reason)
        self._journal.record(GivenUp(given_up))
        self._on_final(given_up)

    def _dropped(self, dropped: Sequence[Pending]) -> None:
        """A full disk did not take these: the edge's answers stand, nothing is retried."""
        for pending in dropped:
            if pending.id in self._sender:
                self._on_final(self._given_up(pending.answer, "disk_full"))

    def _given_up(self, answer: Answer, reason: str) -> Answer:
        self._counters.add(f"given_up_{reason}")
        return replace(answer, final=True, given_up=reason, uplink_bytes=self._forget(answer.id))

    def _forget(self, sample: SampleId) -> int:
        self._quota.discard(sample)
        self._at_hand.forget(sample)
        return self._sender.discard(sample)

    def _arrived(self, pending: Pending) -> float:
        return pending.deadline_s - self._terms.deadlines.asynchronous_s

    def _stray(self, kind: str, why: str) -> None:
        """Count what should not have come; one line of each kind in a while."""
        self._counters.add(kind)
        if (held_back := self._once.admits(kind, self._journal.now())) is not None:
            log.warning(kind, extra={"why": why[:500], "more_since_last": held_back})

    def _state(self, *, online: bool) -> bytes:
        model = self._terms.manifest
        state = {"online": online, "model": model.name, "model_version": model.version}
        return json.dumps(state).encode()
