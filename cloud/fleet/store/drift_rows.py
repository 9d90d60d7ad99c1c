"""Alarms of drift as rows, and what the watch over it keeps."""

from collections.abc import Iterable, Sequence
from typing import Final

from sqlalchemy import Connection, and_, delete, func, or_, select

from cloud.fleet.store import schema as s
from cloud.monitoring.drift.documents import Alarm
from cloud.store.upsert import chunks, upsert

_A: Final = s.drift_alarms.c
_ONE: Final = 1


def put(connection: Connection, alarms: Sequence[Alarm]) -> None:
    """Each in the place of the one of its id."""
    upsert(connection, s.drift_alarms, [
        {"id": one.id, "is_on": one.closed_at is None, "opened_at": one.opened_at,
         "document": one.model_dump_json()}
        for one in alarms
    ])  # fmt: skip


def alarm(connection: Connection, alarm_id: str) -> Alarm | None:
    text = connection.execute(select(_A.document).where(_A.id == alarm_id)).scalar()
    return None if text is None else Alarm.model_validate_json(text)


def alarms(
    connection: Connection, is_on: bool | None, after: str, limit: int | None
) -> list[Alarm]:
    """The newest first, from the one after the alarm `after`; None: those that are over, too."""
    query = select(_A.document).order_by(_A.opened_at.desc(), _A.id).limit(limit)
    if is_on is not None:
        query = query.where(_A.is_on == is_on)
    if after:
        at = connection.execute(select(_A.opened_at).where(_A.id == after)).scalar()
        if at is None:
            return []
        query = query.where(or_(_A.opened_at < at, and_(_A.opened_at == at, _A.id > after)))
    return [Alarm.model_validate_json(text) for text in connection.execute(query).scalars()]


def keep_newest(connection: Connection, alarms_max: int) -> None:
    """Let the oldest of those that are over go, beyond so many in all."""
    count = connection.execute(select(func.count()).select_from(s.drift_alarms)).scalar_one()
    if (too_many := int(count) - alarms_max) > 0:
        old = select(_A.id).where(~_A.is_on).order_by(_A.opened_at, _A.id).limit(too_many)
        gone = list(connection.execute(old).scalars())
        for chunk in chunks(gone):
            connection.execute(delete(s.drift_alarms).where(_A.id.in_(chunk)))


def record(connection: Connection) -> str | None:
    """What the watch kept last."""
    return connection.execute(select(s.drift_record.c.document)).scalar()


def put_record(connection: Connection, document: str) -> None:
    upsert(connection, s.drift_record, [{"id": _ONE, "document": document}])


def groups_of(connection: Connection, devices: Iterable[str]) -> dict[str, str]:
    """Of those that are in the fleet and not revoked, the group of each."""
    t = s.devices.c
    return {
        row.id: row.group_name
        for chunk in chunks(devices)
        for row in connection.execute(
            select(t.id, t.group_name).where(t.id.in_(chunk), t.revoked_at.is_(None))
        )
    }
