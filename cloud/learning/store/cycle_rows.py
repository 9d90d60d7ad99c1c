"""Cycles as rows."""

from sqlalchemy import Connection, delete, func, insert, select, update

from cloud.learning.documents import Phase
from cloud.learning.loop.machine import Step
from cloud.learning.loop.record import CycleRecord
from cloud.learning.store import schema as s
from cloud.learning.store.reading import Unreadable, read
from shared.errors import Unknown


def add(connection: Connection, model: str) -> int:
    """A row for a cycle to come; its number, which no cycle had before."""
    number: int = connection.execute(
        insert(s.cycles)
        .values(id=f"new {model}", model=model, is_over=False, document="")
        .returning(s.cycles.c.number)
    ).scalar_one()
    return number


def save(connection: Connection, number: int, made: Step, now: float, lines_max: int) -> None:
    """The cycle as it is now, and the line that says what happened to it."""
    record, t = made.record, s.cycles.c
    cycle = record.cycle
    connection.execute(update(s.cycles).where(t.number == number).values(
        id=cycle.id, is_over=record.is_over, document=record.model_dump_json(),
        learned_until=record.samples_until if cycle.phase is Phase.DONE else None,
    ))  # fmt: skip
    if not made.line:
        return
    connection.execute(insert(s.lines).values(cycle=cycle.id, at=now, words=made.line[:2000]))
    of_it = select(s.lines.c.seq).where(s.lines.c.cycle == cycle.id)
    old = of_it.order_by(s.lines.c.seq.desc()).offset(lines_max).limit(1)
    if (seq := connection.execute(old).scalar()) is not None:
        connection.execute(delete(s.lines).where(s.lines.c.cycle == cycle.id, s.lines.c.seq <= seq))


def find(connection: Connection, cycle: str) -> tuple[int, CycleRecord]:
    """With its number. Raises `Unknown`, `Unreadable`."""
    number = number_of(connection, cycle)
    query = select(s.cycles.c.document).where(s.cycles.c.number == number)
    return number, record_of(cycle, connection.execute(query).scalar_one())


def number_of(connection: Connection, cycle: str) -> int:
    """Raises `Unknown`."""
    query = select(s.cycles.c.number).where(s.cycles.c.id == cycle)
    number: int | None = connection.execute(query).scalar()
    if number is None:
        raise Unknown(f"there is no cycle {cycle}; GET /v1/loops/MODEL/cycles lists them")
    return number


def running(connection: Connection, model: str) -> tuple[str, CycleRecord | None] | None:
    """The name of the one that runs, and the record where it can be read."""
    t = s.cycles.c
    query = select(t.id, t.document).where(t.model == model, ~t.is_over)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    try:
        return row.id, record_of(row.id, row.document)
    except Unreadable:
        return row.id, None


def record_of(cycle: str, text: str) -> CycleRecord:
    """Raises `Unreadable`."""
    return read(
        CycleRecord, text, f"cycle {cycle}",
        "give it up: with its loop where it runs still (hybridge loop delete MODEL), else by beginning "
        "another (hybridge loop begin MODEL -m WHY)",
    )  # fmt: skip


def learned_until(connection: Connection, model: str) -> float | None:
    """Up to when samples taught a version that went out."""
    newest = select(func.max(s.cycles.c.learned_until)).where(s.cycles.c.model == model)
    return connection.execute(newest).scalar()


def forget(connection: Connection, model: str, kept_max: int) -> None:
    """The oldest cycles that are over, beyond so many; never the one that says up to when samples were
    learned from.
    """
    t = s.cycles.c
    query = select(t.number, t.id).where(t.model == model, t.is_over).order_by(t.number.desc())
    done = select(t.number).where(t.model == model, t.learned_until.is_not(None))
    learned = connection.execute(
        done.order_by(t.learned_until.desc(), t.number.desc()).limit(1)
    ).scalar()
    for number, name in connection.execute(query.offset(kept_max)).all():
        if number == learned:
            continue
        remove(connection, name)


def remove(connection: Connection, cycle: str) -> None:
    """With its log."""
    connection.execute(delete(s.lines).where(s.lines.c.cycle == cycle))
    connection.execute(delete(s.cycles).where(s.cycles.c.id == cycle))
