"""Rollouts and their devices as rows."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, select

from cloud.fleet.store import schema as s
from cloud.rollouts.documents import DeviceInRollout, ModelSubject, RolloutStatus, RolloutView
from cloud.store.upsert import chunks, upsert
from shared.fleet.desired import Section

_R: Final = s.rollouts.c
_D: Final = s.rollout_devices.c
_RUNS: Final = frozenset({RolloutStatus.RUNNING, RolloutStatus.PAUSED})


def is_active(view: RolloutView) -> bool:
    """It decides about its devices: it runs, is paused, or takes them back."""
    return view.status in _RUNS or (view.status is RolloutStatus.ABORTED and view.undoing)


def section_of(view: RolloutView) -> Section:
    return "model" if isinstance(view.spec.subject, ModelSubject) else "profile"


def subject_of(view: RolloutView) -> str:
    """By which rollouts exclude each other in a group: a device has one profile, whatever its name."""
    subject = view.spec.subject
    return subject.model if isinstance(subject, ModelSubject) else ""


def row_of(connection: Connection, rollout: str) -> Row[*tuple[Any, ...]] | None:
    """Without its record."""
    columns = [column for column in s.rollouts.columns if column.name != "record"]
    return connection.execute(select(*columns).where(_R.id == rollout)).one_or_none()


def views(connection: Connection, status: str | None) -> list[RolloutView]:
    """The newest first; None: of every status."""
    query = select(_R.document).order_by(_R.created_at.desc(), _R.id)
    if status is not None:
        query = query.where(_R.status == status)
    return [RolloutView.model_validate_json(text) for text in connection.execute(query).scalars()]


def record(connection: Connection, rollout: str) -> bytes | None:
    return connection.execute(select(_R.record).where(_R.id == rollout)).scalar()


def active_in(
    connection: Connection, group: str, section: Section | None = None, subject: str | None = None
) -> list[str]:
    """Active rollouts of a group, in the order of ids; None: of any section, any subject."""
    query = select(_R.id).where(_R.active, _R.group_name == group).order_by(_R.id)
    if section is not None:
        query = query.where(_R.section == section)
    if subject is not None:
        query = query.where(_R.subject == subject)
    return list(connection.execute(query).scalars())


def unpark(connection: Connection, group: str, section: Section, subject: str) -> list[str]:
    """Let go of the devices of aborted rollouts; these rollouts' ids."""
    where = (_R.parks, _R.group_name == group, _R.section == section, _R.subject == subject)
    found = list(connection.execute(select(_R.id).where(*where)).scalars())
    if found:
        connection.execute(s.rollouts.update().where(_R.id.in_(found)).values(parks=False))
    return found


def parking(connection: Connection) -> dict[str, str]:
    """Aborted rollouts whose devices stay as they are, with their groups."""
    query = select(_R.id, _R.group_name).where(_R.parks)
    return {row.id: row.group_name for row in connection.execute(query)}


def unpark_group(connection: Connection, group: str) -> None:
    """It is no more."""
    connection.execute(s.rollouts.update().where(_R.group_name == group).values(parks=False))


def holders(connection: Connection, devices: Iterable[str]) -> dict[tuple[str, Section], str]:
    """Of each device and section the active rollout that decides about it."""
    return {
        (row.device, row.section): row.rollout
        for chunk in chunks(devices)
        for row in connection.execute(
            select(_D.device, _D.section, _D.rollout).where(_D.active, _D.device.in_(chunk))
        )
    }


def put(connection: Connection, view: RolloutView, record: bytes, *, parks: bool) -> None:
    upsert(connection, s.rollouts, [{
        "id": view.id, "section": section_of(view), "subject": subject_of(view),
        "group_name": view.spec.group, "status": view.status.value,
        "active": is_active(view), "parks": parks, "revision": view.revision,
        "created_at": view.created_at, "document": view.model_dump_json(), "record": record,
    }])  # fmt: skip


def put_devices(
    connection: Connection, view: RolloutView, devices: Sequence[tuple[DeviceInRollout, bytes]],
    *, active: bool,
) -> None:  # fmt: skip
    section = section_of(view)
    upsert(connection, s.rollout_devices, [
        {"rollout": view.id, "device": one.device, "section": section, "active": active,
         "phase": one.phase.value, "document": one.model_dump_json(), "record": record}
        for one, record in devices
    ])  # fmt: skip


def set_active(connection: Connection, rollout: str, *, active: bool) -> None:
    """Of all its devices."""
    connection.execute(
        s.rollout_devices.update().where(_D.rollout == rollout).values(active=active)
    )


def held_elsewhere(
    connection: Connection, rollout: str, section: Section
) -> Row[*tuple[Any, ...]] | None:
    """A device of this rollout that an active one of the section has already."""
    other = s.rollout_devices.alias()
    query = (
        select(_D.device, other.c.rollout)
        .join(other, other.c.device == _D.device)
        .where(_D.rollout == rollout, other.c.rollout != rollout, other.c.active,
               other.c.section == section)
        .order_by(_D.device)
        .limit(1)
    )  # fmt: skip
    return connection.execute(query).one_or_none()


def unsettle_devices(connection: Connection, rollout: str) -> None:
    """Its devices: nobody decides about them any more."""
    t = s.devices
    of_it = select(_D.device).where(_D.rollout == rollout)
    connection.execute(t.update().where(t.c.id.in_(of_it)).values(unsettled=True))


def devices(
    connection: Connection, rollout: str, phase: str | None, after: str, limit: int
) -> list[DeviceInRollout]:
    """In the order of ids, from the one after."""
    query = (
        select(_D.document).where(_D.rollout == rollout, _D.device > after)
        .order_by(_D.device).limit(limit)
    )  # fmt: skip
    if phase is not None:
        query = query.where(_D.phase == phase)
    found = connection.execute(query).scalars()
    return [DeviceInRollout.model_validate_json(text) for text in found]


def device_records(connection: Connection, rollout: str) -> dict[str, bytes]:
    query = select(_D.device, _D.record).where(_D.rollout == rollout).order_by(_D.device)
    return {row.device: row.record for row in connection.execute(query)}


def make_room(connection: Connection, rollouts_max: int) -> bool:
    """Let the oldest ended ones go; False: all that are there are needed."""
    count = connection.execute(select(func.count()).select_from(s.rollouts)).scalar_one()
    too_many = int(count) - rollouts_max + 1
    if too_many <= 0:
        return True
    ended = [RolloutStatus.SUCCEEDED.value, RolloutStatus.ROLLED_BACK.value,
             RolloutStatus.ABORTED.value]  # fmt: skip
    query = select(_R.id).where(_R.status.in_(ended), ~_R.parks)
    gone = list(connection.execute(query.order_by(_R.created_at, _R.id).limit(too_many)).scalars())
    for rollout in gone:
        remove(connection, rollout)
    return len(gone) == too_many


def remove_devices(connection: Connection, rollout: str) -> None:
    connection.execute(delete(s.rollout_devices).where(_D.rollout == rollout))


def remove(connection: Connection, rollout: str) -> None:
    remove_devices(connection, rollout)
    connection.execute(delete(s.rollouts).where(_R.id == rollout))
