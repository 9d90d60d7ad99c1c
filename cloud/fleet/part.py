"""What every part of `Fleet` stands on: the database, the bounds, and the log."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from cloud.fleet.bounds import is_device, shown
from cloud.fleet.device_settings import DeviceSettings
from cloud.fleet.documents import Group
from cloud.fleet.grouping import Grouping
from cloud.fleet.selector import Facts
from cloud.fleet.store import device_rows, event_rows, group_rows, rollout_rows
from cloud.fleet.store.database import FleetDatabase
from cloud.fleet.store.event_rows import Line
from shared.errors import Conflict, Malformed, Unknown

LIMIT_MAX = 10_000
"""Rows of one answer."""


class Part:
    """Synchronous and thread-safe: it holds nothing but the open database."""

    def __init__(self, database: FleetDatabase, settings: DeviceSettings) -> None:
        self._database = database
        self._settings = settings

    def log(self, connection: Connection, now: float, *lines: Line) -> None:
        event_rows.append(connection, lines, now, self._settings.events_max)


def limited(limit: int) -> int:
    """Raises `Malformed`."""
    if limit < 1:
        raise Malformed(f"limit is {limit}; ask for 1 to {LIMIT_MAX}")
    return min(limit, LIMIT_MAX)


def checked_after(after: str) -> str:
    """The device after which a page begins; empty: the first. Raises `Malformed`."""
    if after and not is_device(after):
        raise Malformed(f"after is {shown(after)}; give what the page before gave")
    return after


def device_row(
    connection: Connection, device: str, revision: int | None = None
) -> Row[*tuple[Any, ...]]:
    """Raises `Unknown`; `Conflict` where it is of another revision."""
    row = device_rows.row_of(connection, device) if is_device(device) else None
    if row is None:
        raise Unknown(f"there is no device {shown(device)}")
    same_revision(row.revision, revision, f"device {device}")
    return row


def same_revision(present: int, revision: int | None, what: str) -> None:
    """Raises `Conflict` where somebody else changed it since `revision`."""
    if revision not in {None, present}:
        raise Conflict(
            f"{what} is of revision {present}, not {revision}: somebody changed it; look at it again"
        )


def known_group(connection: Connection, name: str) -> Group:
    """Raises `Unknown`."""
    if (found := group_rows.group(connection, name)) is None:
        raise Unknown(f"there is no group {shown(name)}")
    return found


def regroup(
    connection: Connection, devices: Sequence[tuple[Facts, str]], grouping: Grouping
) -> int:
    """Move those devices (with the group that each is in) which belong elsewhere; how many.

    Raises `Conflict`, naming the rollout, where one is in an active rollout: that goes by groups.
    """
    moves = [
        (facts.id, group)
        for facts, before in devices
        if (group := grouping.group_of(facts)) != before
    ]
    holders = rollout_rows.holders(connection, (device for device, _ in moves))
    for (device, _), rollout in sorted(holders.items()):
        raise Conflict(
            f"device {device} would change its group in the middle of rollout {rollout}; wait until "
            "that has ended, or abort it"
        )
    group_rows.move(connection, moves)
    return len(moves)


def grouping_of(connection: Connection) -> Grouping:
    return Grouping(group_rows.groups(connection))


def in_words(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in labels.items()) or "none"
