"""Devices whose group or desired state has to be looked at."""

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select

from cloud.fleet.selector import Facts
from cloud.fleet.store import schema as s
from cloud.fleet.store.device_rows import facts_of
from cloud.store.upsert import update

_D: Final = s.devices.c


@dataclass(frozen=True, slots=True)
class Unsettled:
    """With the generations that it reported."""

    facts: Facts
    group: str
    seen_model: int
    seen_profile: int
    revoked: bool


def any_unsettled(connection: Connection) -> bool:
    query = select(_D.id).where(_D.unsettled).limit(1)
    return connection.execute(query).scalar() is not None


def unsettled(connection: Connection, limit: int) -> list[Unsettled]:
    """In the order of ids."""
    query = (
        select(
            _D.id, _D.labels, _D.group_name, _D.arch, _D.engines, _D.model, _D.version, _D.online,
            _D.model_generation, _D.profile_generation, _D.revoked_at,
        )
        .where(_D.unsettled).order_by(_D.id).limit(limit)
    )  # fmt: skip
    return [
        Unsettled(
            facts_of(row), row.group_name, row.model_generation, row.profile_generation,
            row.revoked_at is not None,
        )
        for row in connection.execute(query)
    ]  # fmt: skip


def mark_settled(connection: Connection, devices: list[str]) -> None:
    update(connection, s.devices, ["id"], [{"id": one, "unsettled": False} for one in devices])
