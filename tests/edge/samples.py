"""Rows and answers for tests, without a model."""

from dataclasses import replace
from random import Random
from uuid import UUID

from edge.answers import Answer
from edge.journal.rows import Pending, Waiting
from shared.ids import SampleId
from shared.new_ids import new_sample_id
from shared.wire.envelope import Escalation, Payload, Reason


def sample(number: int) -> SampleId:
    return SampleId(UUID(int=number))


def pending(
    name: SampleId | None = None,
    *,
    confidence: float = 0.4,
    audit: bool = False,
    size: int = 100,
    deadline_s: float = 1e6,
    position: str = "",
    reason: Reason = "escalated",
) -> Pending:
    name = new_sample_id() if name is None else name
    route: Reason = "audit" if audit else reason
    answer = Answer(
        name, 1, confidence, "edge", route, "1.0.0", final=False, latency_ms=0.5,
        origin="test", position=position, edge_label=1, first_latency_ms=0.5,
    )  # fmt: skip
    payload = Payload("raw", "uint8", (size,), Random(1).randbytes(size))
    escalation = Escalation(name, "tiny-edge", "1.0.0", route, 0, 1.0, 1, confidence, payload)
    return Pending(answer, escalation, (0.5, 1.5, -1.0), deadline_s)


def waiting(
    number: int, *, confidence: float = 0.4, audit: bool = False, size: int = 400,
    deadline_s: float = 1e6,
) -> Waiting:  # fmt: skip
    return Waiting(sample(number), audit, confidence, size, deadline_s)


def final(p: Pending, **changes: object) -> Answer:
    return replace(p.answer, final=True, **{"source": "cloud", "label": 2, **changes})  # type: ignore[arg-type]  # any field


def given_up(p: Pending, reason: str) -> Answer:
    return replace(p.answer, final=True, given_up=reason)
