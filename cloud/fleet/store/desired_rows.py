"""Desired state as rows: what was ordered last, and whether the broker has it."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, select

from cloud.fleet.desired_state import Desired, section_of
from cloud.fleet.store import schema as s
from cloud.store.upsert import chunks, update, upsert
from shared.fleet.desired import DesiredModel, DesiredProfile, Section

_T: Final = s.desired.c


def desired_of(row: Row[*tuple[Any, ...]]) -> Desired:
    kind: type[DesiredModel | DesiredProfile] = (
        DesiredModel if row.section == "model" else DesiredProfile
    )
    return kind.model_validate_json(row.document)


def current(connection: Connection, devices: Iterable[str]) -> dict[tuple[str, Section], Desired]:
    return {
        (row.device, row.section): desired_of(row)
        for chunk in chunks(devices)
        for row in connection.execute(select(s.desired).where(_T.device.in_(chunk)))
    }


def seen_generations(
    connection: Connection, devices: Iterable[str]
) -> dict[str, dict[Section, int]]:
    """That devices which are there reported."""
    t = s.devices.c
    return {
        row.id: {"model": row.model_generation, "profile": row.profile_generation}
        for chunk in chunks(devices)
        for row in connection.execute(
            select(t.id, t.model_generation, t.profile_generation).where(t.id.in_(chunk))
        )
    }


def keep(connection: Connection, orders: Sequence[tuple[str, Desired]]) -> None:
    """They are unpublished from now on."""
    upsert(connection, s.desired, [
        {"device": device, "section": section_of(one), "generation": one.generation,
         "published": False, "document": one.model_dump_json()}
        for device, one in orders
    ])  # fmt: skip


def unpublished(connection: Connection, limit: int) -> list[tuple[str, Desired]]:
    query = select(s.desired).where(~_T.published).order_by(_T.device, _T.section).limit(limit)
    return [(row.device, desired_of(row)) for row in connection.execute(query)]


def mark_published(connection: Connection, done: Sequence[tuple[str, Section, int]]) -> None:
    """Where the generation is still that one."""
    update(connection, s.desired, ["device", "section", "generation"], [
        {"device": device, "section": section, "generation": generation, "published": True}
        for device, section, generation in done
    ])  # fmt: skip


def mark_unpublished(connection: Connection) -> int:
    """All; how many were published."""
    found = connection.execute(s.desired.update().where(_T.published).values(published=False))
    return found.rowcount
