"""Loops and cycles, stored. Synchronous and thread-safe; bounded."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, insert, select

from cloud.learning.documents import Cycle, FeatureCheck, LoopSettings, TriggerKind
from cloud.learning.loop.events import Event
from cloud.learning.loop.machine import begin, step
from cloud.learning.loop.record import Begun, CycleRecord, data_spec
from cloud.learning.store import cycle_rows as rows
from cloud.learning.store import schema as s
from cloud.learning.store.reading import Readable, Unreadable, read
from cloud.learning.store.settings import LoopsKept
from cloud.store.migrating import Migrations
from cloud.training.store.database import LearningDatabase
from shared.errors import Conflict, Overloaded, Unknown

log = logging.getLogger(__name__)
MIGRATIONS: Final = Migrations("cloud.learning.store", "learning_loop_version")


@dataclass(frozen=True, slots=True)
class KeptLoop:
    settings: LoopSettings
    revision: int
    made_at: float


@dataclass(frozen=True, slots=True)
class Line:
    at: float
    words: str


class LoopStore:
    """Raises `Unavailable` while the database is away."""

    def __init__(self, database: LearningDatabase, kept: LoopsKept) -> None:
        """The database is open, with `MIGRATIONS`."""
        self._database, self._kept = database, kept
        self._readable = Readable()

    # loops

    def loops(self) -> list[KeptLoop]:
        """In the order of their models."""
        query = select(s.loops).order_by(s.loops.c.model)
        found = self._database.read(lambda connection: connection.execute(query).all())
        return self._readable.of(found, _kept)

    def loop(self, model: str) -> KeptLoop:
        """Raises `Unknown`, `Unreadable`."""
        return self._database.read(lambda connection: _known(connection, model))

    def put(self, settings: LoopSettings, revision: int | None, now: float) -> KeptLoop:
        """Make it, or change it; a cycle that runs goes on by the settings it began with.

        Raises `Conflict` where it is of another revision (0: it must not be there, or not readable),
        `Overloaded`.
        """

        def change(connection: Connection) -> KeptLoop:
            before = _row(connection, settings.model)
            if revision != 0 or _is_readable(before):
                _same(before, revision, settings.model)
            if before is None:
                count = connection.execute(select(func.count()).select_from(s.loops)).scalar_one()
                if count >= self._kept.loops_max:
                    raise Overloaded(f"{count} loops are as many as there may be; delete one first")
            found = KeptLoop(
                settings, 1 if before is None else before.revision + 1,
                now if before is None else before.made_at,
            )  # fmt: skip
            connection.execute(delete(s.loops).where(s.loops.c.model == settings.model))
            connection.execute(insert(s.loops).values(
                model=settings.model, revision=found.revision, made_at=found.made_at,
                document=settings.model_dump_json(),
            ))  # fmt: skip
            return found

        return self._database.write(change)

    def declare(self, settings: LoopSettings, now: float) -> None:
        """As `put`; the same settings again are no change. Raises `Overloaded`."""
        try:
            if self.loop(settings.model).settings == settings:
                return
        except (Unknown, Unreadable):  # what cannot be read is replaced
            pass
        self.put(settings, None, now)

    def remove(self, model: str, revision: int | None) -> None:
        """Its cycles stay listed until they are too many; one that runs and cannot be read is given up:
        nothing is kept of it. Raises `Unknown`; `Conflict` while another runs, or where the loop is of
        another revision.
        """

        def change(connection: Connection) -> None:
            if (before := _row(connection, model)) is None:
                raise _no_loop(model)
            _same(before, revision, model)
            if (running := rows.running(connection, model)) is not None:
                name, record = running
                if record is not None:
                    raise Conflict(
                        f"cycle {name} of {model} runs: stop it first, or set enabled to false"
                    )
                rows.remove(connection, name)
                log.warning("cycle_given_up", extra={"cycle": name, "model": model})
            connection.execute(delete(s.loops).where(s.loops.c.model == model))

        self._database.write(change)

    def check_times(self, settings: LoopSettings) -> None:
        """Raises `Conflict` where no sample is left that a next cycle could take."""
        model = settings.model
        data_spec(settings, self._database.read(lambda c: rows.learned_until(c, model)), None)

    # cycles

    def begin(
        self, model: str, trigger: TriggerKind, words: str, now: float
    ) -> CycleRecord:  # fmt: skip
        """A model has one cycle at most. Raises `Unknown`, `Conflict`."""

        def change(connection: Connection) -> CycleRecord:
            kept = _known(connection, model)
            if (running := rows.running(connection, model)) is not None:
                name, record = running
                where = "it cannot be read" if record is None else record.cycle.phase
                raise Conflict(f"cycle {name} of {model} runs: {where}")
            number = rows.add(connection, model)
            begun = Begun(
                trigger=trigger, words=words[:1000], number=number,
                samples_since=rows.learned_until(connection, model),
            )  # fmt: skip
            made = begin(kept.settings, begun, now)
            rows.save(connection, number, made, now, self._kept.lines_max)
            rows.forget(connection, model, self._kept.cycles_max)
            return made.record

        return self._database.write(change)

    def step(
        self, cycle: str, event: Event, now: float, revision: int | None = None
    ) -> CycleRecord:
        """Tell it, and keep what follows. `revision`: what a person saw last.

        Raises `Unknown`, `Unreadable`; `Conflict` where it is of another revision, or the word does not
        fit.
        """

        def change(connection: Connection) -> CycleRecord:
            number, record = rows.find(connection, cycle)
            if revision not in {None, record.cycle.revision}:
                raise Conflict(
                    f"cycle {cycle} is of revision {record.cycle.revision}, not {revision}: it has "
                    "moved on; look at it again"
                )
            after = step(record, event, now)
            if after.record is not record:
                rows.save(connection, number, after, now, self._kept.lines_max)
            return after.record

        return self._database.write(change)

    def cycle(self, cycle: str) -> CycleRecord:
        """Raises `Unknown`, `Unreadable`."""
        return self._database.read(lambda connection: rows.find(connection, cycle)[1])

    def running_of(self, model: str) -> tuple[str, CycleRecord | None] | None:
        """The name of the one that runs, and the record where it can be read."""
        return self._database.read(lambda connection: rows.running(connection, model))

    def running(self) -> list[CycleRecord]:
        """Of every model, the oldest first, those that can be read."""
        t = s.cycles.c
        query = select(t.id, t.document).where(~t.is_over).order_by(t.number)
        found = self._database.read(lambda connection: connection.execute(query).all())
        return self._readable.of(found, _record)

    def last(self, model: str) -> CycleRecord | None:
        """The one that ended last. Raises `Unreadable`."""
        t = s.cycles.c
        query = select(t.id, t.document).where(t.model == model, t.is_over)
        newest = query.order_by(t.number.desc()).limit(1)
        row = self._database.read(lambda connection: connection.execute(newest).one_or_none())
        return None if row is None else _record(row)

    def cycles(self, model: str, after: str | None, limit: int) -> list[Cycle]:
        """The newest first, those before `after`. Raises `Unknown`."""
        t = s.cycles.c

        def look(connection: Connection) -> Sequence[Row[*tuple[Any, ...]]]:
            query = select(t.id, t.document).where(t.model == model).order_by(t.number.desc())
            if after is not None:
                query = query.where(t.number < rows.number_of(connection, after))
            return connection.execute(query.limit(limit)).all()

        return [one.cycle for one in self._readable.of(self._database.read(look), _record)]

    def lines(self, cycle: str, limit: int = 1000) -> list[Line]:
        """What happened to it, the oldest first. Raises `Unknown`."""
        t = s.lines.c
        query = select(t.at, t.words).where(t.cycle == cycle).order_by(t.seq.desc()).limit(limit)

        def look(connection: Connection) -> list[Line]:
            rows.number_of(connection, cycle)
            return [Line(at, words) for at, words in reversed(connection.execute(query).all())]

        return self._database.read(look)

    # feature checks

    def put_check(self, check: FeatureCheck) -> None:
        def change(connection: Connection) -> None:
            connection.execute(delete(s.checks).where(s.checks.c.model == check.model))
            connection.execute(
                insert(s.checks).values(model=check.model, document=check.model_dump_json())
            )

        self._database.write(change)

    def checks(self) -> list[FeatureCheck]:
        """The newest of each model."""
        query = select(s.checks).order_by(s.checks.c.model)
        found = self._database.read(lambda connection: connection.execute(query).all())
        return self._readable.of(found, _check)

    # refits

    def refitted_at(self, model: str) -> float | None:
        """When its threshold was fitted, or could not be; Unix seconds."""
        query = select(s.refits.c.at).where(s.refits.c.model == model)
        return self._database.read(lambda connection: connection.execute(query).scalar())

    def put_refit(self, model: str, now: float) -> None:
        def change(connection: Connection) -> None:
            connection.execute(delete(s.refits).where(s.refits.c.model == model))
            connection.execute(insert(s.refits).values(model=model, at=now))

        self._database.write(change)


def _row(connection: Connection, model: str) -> Row[*tuple[Any, ...]] | None:
    return connection.execute(select(s.loops).where(s.loops.c.model == model)).one_or_none()


def _known(connection: Connection, model: str) -> KeptLoop:
    if (row := _row(connection, model)) is None:
        raise _no_loop(model)
    return _kept(row)


def _no_loop(model: str) -> Unknown:
    return Unknown(f"{model} has no loop; PUT /v1/loops/{model} makes one")


def _kept(row: Row[*tuple[Any, ...]]) -> KeptLoop:
    settings = read(
        LoopSettings, row.document, f"the loop of {row.model}",
        "set the loop anew: hybridge loop set FILE",
    )  # fmt: skip
    return KeptLoop(settings, row.revision, row.made_at)


def _is_readable(row: Row[*tuple[Any, ...]] | None) -> bool:
    """A row that is none is."""
    try:
        return row is None or _kept(row) is not None
    except Unreadable:
        return False


def _record(row: Row[*tuple[Any, ...]]) -> CycleRecord:
    return rows.record_of(row.id, row.document)


def _check(row: Row[*tuple[Any, ...]]) -> FeatureCheck:
    what, instead = f"the feature check of {row.model}", f"hybridge loop check {row.model}"
    return read(FeatureCheck, row.document, what, instead)


def _same(found: Row[*tuple[Any, ...]] | None, revision: int | None, model: str) -> None:
    present = 0 if found is None else found.revision
    if revision not in {None, present}:
        raise Conflict(
            f"the loop of {model} is of revision {present}, not {revision}: somebody changed it; "
            "look at it again"
        )
