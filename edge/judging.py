"""One sample's way: confidence, novelty, policy, answer, and an escalation where one is due."""

import logging
import random
import time
from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from edge.answers import Answer, Route, Sample
from edge.inference.active import Active
from edge.inference.slot import Logits
from edge.journal.rows import Pending
from edge.routing.novelty import NoveltyWatch
from edge.telemetry.counters import Counters
from shared.confidence import label_and_confidence
from shared.wire.envelope import Escalation, Reason

log = logging.getLogger(__name__)


class Judge:
    """Some fifteen microseconds a sample, and forty for one that goes to the cloud; on the event loop alone."""

    def __init__(
        self,
        fast_ms: float,
        asynchronous_s: float,
        now: Callable[[], float],
        counters: Counters,
        rng: random.Random,
    ) -> None:
        """`now`: the agent's clock, by which deadlines count."""
        self._fast_ms, self._asynchronous_s, self._now = fast_ms, asynchronous_s, now
        self._counters, self._rng = counters, rng
        self.shadow: Callable[[NDArray[np.uint8], Answer], None] | None = None
        """Is shown each live sample with the edge's answer; must return at once."""

    def judge(
        self, active: Active, sample: Sample, logits: Logits
    ) -> tuple[Answer, Pending | None]:
        """The edge's answer; with it, what the cloud is asked."""
        label, confidence = label_and_confidence(logits, active.temperature)
        if broke := not 0 <= confidence <= 1:  # NaN: the model broke down over this input
            self._counters.add("confidence_not_a_number")
            confidence = 0.0
        policy, novel = active.policy, False
        share = policy.audit_share
        if (watch := active.watch) is not None:
            share = watch.audit_share
            if not broke and watch.said(label, confidence):
                novel = self._look(watch, active, sample)
        route: Route = "novel" if novel else policy.route(confidence, self._rng.random(), share)
        latency_ms = (time.monotonic() - sample.arrived) * 1000
        if latency_ms > self._fast_ms:
            self._counters.add("fast_deadline_missed")
        if (tally := active.tally) is not None:
            if broke:
                tally.broke_down(route, latency_ms)
            else:
                tally.judged(label, confidence, route, share, latency_ms)
        accepted = route == "accepted"
        answer = Answer(
            sample.id, label, confidence, "edge", route, active.version, accepted, latency_ms,
            sample.origin, sample.position, "", label, latency_ms,
        )  # fmt: skip
        if self.shadow is not None:
            self.shadow(sample.tensor, answer)
        return answer, None if accepted else self._pending(active, sample, answer, logits, share)

    def _look(self, watch: NoveltyWatch, active: Active, sample: Sample) -> bool:
        before, out = watch.level, watch.raised_out
        novel = watch.look(sample.tensor, time.monotonic())
        if watch.level != before:
            self._counters.add(f"became_{watch.level}")
            seen = watch.seen().fields()
            seen["novelty"] = seen.pop("level")  # a line has another one
            log.info("novelty_changed", extra={"version": active.version, **seen})
        if watch.raised_out and not out:
            self._counters.add("audits_raised_out")
        return novel

    def _pending(
        self, active: Active, sample: Sample, answer: Answer, logits: Logits, share: float
    ) -> Pending:
        escalation = Escalation(
            id=sample.id, model=active.model, model_version=active.version,
            reason=cast("Reason", answer.route), budget_ms=0, captured_at=sample.captured_at,
            edge_label=answer.label, edge_confidence=answer.confidence,
            payload=active.encoder.encode(sample.tensor), traceparent=sample.traceparent,
            share=share if answer.route == "audit" else 1.0,
        )  # fmt: skip
        age_s = time.monotonic() - sample.arrived
        deadline_s = self._now() - age_s + self._asynchronous_s
        return Pending(answer, escalation, tuple(logits), deadline_s)
