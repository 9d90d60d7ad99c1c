"""Answers and waiting escalations as rows of SQLite, and back."""

from array import array
from dataclasses import dataclass, replace
from typing import cast
from uuid import UUID

from edge.answers import Answer
from shared.errors import Malformed
from shared.ids import SampleId
from shared.wire.envelope import Escalation, pack_escalation, unpack_escalation

_ROW_BYTES = 300  # SQLite's own and the short columns, about

ANSWER_COLUMNS = (
    "id, label, confidence, source, route, model_version, latency_ms, origin, position, "
    "edge_label, first_latency_ms, uplink_bytes"
)
PENDING_COLUMNS = (
    "id, audit, confidence, bytes, deadline_s, escalation, logits, latency_ms, origin, position"
)

WAITING_COLUMNS = "id, audit, confidence, bytes, deadline_s"

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Pending:
    """An escalation or audit that has no cloud answer yet: one row of the outbox."""

    answer: Answer  # the edge's, provisional
    escalation: Escalation  # its `budget_ms` is set when it is sent
    logits: tuple[float, ...]  # the edge's, for fusion
    deadline_s: float  # by the agent's clock (`agent_clock.py`)

    @property
    def id(self) -> SampleId:
        return self.answer.id

    @property
    def bytes(self) -> int:
        """What it counts for in the outbox's quota."""
        return _ROW_BYTES + len(self.escalation.payload.data)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A row of the outbox as the sender orders it, without its contents."""

    id: SampleId
    audit: bool
    confidence: float
    bytes: int
    deadline_s: float


@dataclass(frozen=True, slots=True)
class Damaged:
    """What is left of a row of the outbox whose contents the disk has spoilt."""

    answer: Answer  # the edge's; its label and version went with the contents: -1 and ""
    why: str


def answer_row(a: Answer) -> Row:
    return (
        a.id.bytes, a.label, a.confidence, a.source, a.route, a.model_version, a.latency_ms,
        a.origin, a.position, a.edge_label, a.first_latency_ms, a.uplink_bytes,
    )  # fmt: skip


def answer_of(row: Row, given_up: str = "") -> Answer:
    """A final answer from its `ANSWER_COLUMNS`."""
    (sample, label, confidence, source, route, version, latency, origin, position, edge, first,
     uplink) = cast("tuple[bytes, int, float, str, str, str, float, str, str, int, float, int]", row)  # fmt: skip
    return Answer(
        SampleId(UUID(bytes=sample)), label, confidence,
        source, route,  # type: ignore[arg-type]  # only `answer_row` writes them
        version, final=True, latency_ms=latency, origin=origin, position=position,
        given_up=given_up, edge_label=edge, first_latency_ms=first, uplink_bytes=uplink,
    )  # fmt: skip


def pending_row(p: Pending) -> Row:
    a = p.answer
    return (
        a.id.bytes, a.route == "audit", a.confidence, p.bytes, p.deadline_s,
        pack_escalation(p.escalation), array("f", p.logits).tobytes(), a.latency_ms,
        a.origin, a.position,
    )  # fmt: skip


def pending_of(row: Row) -> Pending | Damaged:
    sample, audit, confidence, _, deadline_s, message, packed, latency, origin, position = cast(
        "tuple[bytes, int, float, int, float, bytes, bytes, float, str, str]", row
    )
    answer = Answer(
        SampleId(UUID(bytes=sample)), -1, confidence, "edge", "audit" if audit else "escalated",
        "", final=False, latency_ms=latency, origin=origin, position=position,
        first_latency_ms=latency,
    )  # fmt: skip
    try:
        # Of any size: one that no message holds is given up for that, with its label.
        e = unpack_escalation(message, bytes_max=len(message))
        logits = tuple(array("f", packed))
    except (Malformed, ValueError) as error:
        return Damaged(answer, str(error))
    if e.id != answer.id:
        return Damaged(answer, f"it holds sample {e.id}")
    answer = replace(
        answer, label=e.edge_label, confidence=e.edge_confidence, model_version=e.model_version,
        edge_label=e.edge_label, route=e.reason,
    )  # fmt: skip
    return Pending(answer, e, logits, deadline_s)


def waiting_of(p: Pending) -> Waiting:
    return Waiting(p.id, p.answer.route == "audit", p.answer.confidence, p.bytes, p.deadline_s)


def waiting_row(row: Row) -> Waiting:
    """A `Waiting` from its `WAITING_COLUMNS`."""
    sample, audit, confidence, size, deadline_s = cast("tuple[bytes, int, float, int, float]", row)
    return Waiting(SampleId(UUID(bytes=sample)), bool(audit), confidence, size, deadline_s)
