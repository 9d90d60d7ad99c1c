"""Groups and profiles as rows."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select

from cloud.fleet.documents import EVERYBODY, Group, Profile
from cloud.fleet.store import schema as s
from cloud.store.upsert import update, upsert

EVERYBODY_PRIORITY: Final = 0
"""After all others: shown, never compared."""


def groups(connection: Connection) -> list[Group]:
    """In the order of names; `all` is always there."""
    query = select(s.groups.c.document).order_by(s.groups.c.name)
    found = [Group.model_validate_json(text) for text in connection.execute(query).scalars()]
    if all(group.name != EVERYBODY for group in found):
        found.append(Group(name=EVERYBODY, priority=EVERYBODY_PRIORITY))
    return sorted(found, key=lambda one: one.name)


def group(connection: Connection, name: str) -> Group | None:
    return next((one for one in groups(connection) if one.name == name), None)


def put(connection: Connection, group: Group) -> None:
    upsert(connection, s.groups, [{"name": group.name, "document": group.model_dump_json()}])


def remove(connection: Connection, name: str) -> None:
    connection.execute(delete(s.groups).where(s.groups.c.name == name))


def mark_unsettled(connection: Connection, name: str) -> None:
    """All its devices: what it says has changed."""
    t = s.devices
    connection.execute(
        t.update().where(t.c.group_name == name, ~t.c.unsettled).values(unsettled=True)
    )


def move(connection: Connection, moves: Sequence[tuple[str, str]]) -> None:
    """Devices to their new groups."""
    update(connection, s.devices, ["id"], [
        {"id": device, "group_name": name, "unsettled": True} for device, name in moves
    ])  # fmt: skip


def profiles(connection: Connection, name: str | None = None) -> list[Profile]:
    """In the order of names, rising; None: of all names."""
    t = s.profiles.c
    query = select(t.document).order_by(t.name, t.version)
    if name is not None:
        query = query.where(t.name == name)
    return [Profile.model_validate_json(text) for text in connection.execute(query).scalars()]


def profile(connection: Connection, name: str, version: int) -> Profile | None:
    t = s.profiles.c
    if not 0 < version < 2**31:
        return None
    query = select(t.document).where(t.name == name, t.version == version)
    text = connection.execute(query).scalar()
    return None if text is None else Profile.model_validate_json(text)


def profiles_count(connection: Connection) -> int:
    return int(connection.execute(select(func.count()).select_from(s.profiles)).scalar_one())


def add_profile(connection: Connection, profile: Profile) -> None:
    connection.execute(insert(s.profiles).values(
        name=profile.name, version=profile.version, document=profile.model_dump_json()
    ))  # fmt: skip
