"""The fleet's log: appended in the transaction of what it tells, and bounded."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, select

from cloud.fleet.documents import FleetEvent
from cloud.fleet.store import schema as s

_WORDS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Line:
    """An event without its place in the log."""

    kind: str
    actor: str
    words: str
    device: str | None = None
    rollout: str | None = None


def head(connection: Connection) -> int:
    """Sequence of the newest event; 0: there is none."""
    return int(connection.execute(select(func.coalesce(func.max(s.events.c.seq), 0))).scalar_one())


def append(connection: Connection, lines: Sequence[Line], now: float, events_max: int) -> None:
    """The oldest beyond `events_max` go out."""
    if not lines:
        return
    seq = head(connection)
    rows = []
    for line in lines[-events_max:]:
        seq += 1
        event = FleetEvent(
            seq=seq, at=now, kind=line.kind, actor=line.actor, device=line.device,
            rollout=line.rollout, words=line.words[:_WORDS_MAX],
        )  # fmt: skip
        rows.append({
            "seq": seq, "device": line.device, "rollout": line.rollout,
            "document": event.model_dump_json(),
        })  # fmt: skip
    connection.execute(insert(s.events), rows)
    connection.execute(delete(s.events).where(s.events.c.seq <= seq - events_max))


def events(
    connection: Connection, after: int, limit: int, device: str | None, rollout: str | None
) -> list[FleetEvent]:
    """Rising from the event after `after`; None: of all."""
    t = s.events.c
    query = select(t.document).where(t.seq > after).order_by(t.seq).limit(limit)
    if device is not None:
        query = query.where(t.device == device)
    if rollout is not None:
        query = query.where(t.rollout == rollout)
    return [FleetEvent.model_validate_json(row.document) for row in connection.execute(query)]
