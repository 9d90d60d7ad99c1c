"""Data sets as the database remembers them: versions, their files, and whose samples those hold."""

import struct
from collections.abc import Iterable
from typing import Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy import Connection

from cloud.feedback.data_file import DataRows
from cloud.feedback.documents import DataSetVersion, Deletion
from cloud.store.schema import data_set_devices, data_set_names, data_sets
from shared.errors import Unknown

_FETCH: Final = 1000
_of = data_sets.c
_whose = data_set_devices.c


def versions(connection: Connection, name: str | None = None) -> list[DataSetVersion]:
    """By name and number."""
    query = sa.select(_of.document).order_by(_of.name, _of.number)
    if name is not None:
        query = query.where(_of.name == name)
    return [DataSetVersion.model_validate_json(text) for text in connection.scalars(query)]


def newest(connection: Connection, name: str, number: int | None = None) -> DataSetVersion | None:
    """Or that of a number."""
    query = sa.select(_of.document).where(_of.name == name).order_by(_of.number.desc()).limit(1)
    if number is not None:
        query = query.where(_of.number == number)
    text = connection.execute(query).scalar()
    return None if text is None else DataSetVersion.model_validate_json(text)


def version(connection: Connection, name: str, number: int | None) -> DataSetVersion:
    """None: the newest. Raises `Unknown`."""
    found = newest(connection, name, number)
    if found is None:
        which = f"data set {name}" + ("" if number is None else f" {number}")
        raise Unknown(f"{which} is not here; `GET /v1/data-sets` says which there are")
    return found


def sizes(connection: Connection) -> tuple[int, int]:
    """How many versions there are, and the bytes of their files."""
    count = connection.execute(sa.select(sa.func.count()).select_from(data_sets)).scalar_one()
    files = sa.select(_of.sha256, sa.func.max(_of.byte_count).label("size")).group_by(_of.sha256)
    total = sa.select(sa.func.coalesce(sa.func.sum(files.subquery().c.size), 0))
    return int(count), int(connection.execute(total).scalar_one())


def next_number(connection: Connection, name: str) -> int:
    """One that the name never had."""
    of = data_set_names.c
    last = connection.execute(sa.select(of.last).where(of.name == name).with_for_update()).scalar()
    if last is None:
        connection.execute(sa.insert(data_set_names).values(name=name, last=1))
        return 1
    connection.execute(sa.update(data_set_names).where(of.name == name).values(last=last + 1))
    return int(last) + 1


def insert(
    connection: Connection, made: DataSetVersion, rows: DataRows, received: NDArray[np.float64]
) -> None:
    """`received`: of each row, Unix seconds."""
    connection.execute(sa.insert(data_sets).values(
        name=made.name, number=made.number, sha256=made.sha256, made_at=made.made_at,
        byte_count=made.bytes, document=made.model_dump_json(),
    ))  # fmt: skip
    known = sa.select(sa.func.count()).select_from(data_set_devices)
    if connection.execute(known.where(_whose.sha256 == made.sha256)).scalar_one():
        return
    order = np.argsort(rows.devices, kind="stable")
    names, starts = np.unique(rows.devices[order], return_index=True)
    lines = []
    for name, own in zip(names, np.split(received[order], starts[1:]), strict=True):
        times = np.sort(own)
        lines.append({
            "sha256": made.sha256, "device": str(name), "first_at": float(times[0]),
            "last_at": float(times[-1]), "received": times.astype("<f8").tobytes(),
        })  # fmt: skip
    connection.execute(sa.insert(data_set_devices), lines)


def remove(connection: Connection, name: str, number: int) -> bool:
    """Whether its file belongs to nobody now."""
    gone = version(connection, name, number)
    connection.execute(sa.delete(data_sets).where(_of.name == name, _of.number == number))
    if is_named(connection, gone.sha256):
        return False
    connection.execute(sa.delete(data_set_devices).where(_whose.sha256 == gone.sha256))
    return True


def is_named(connection: Connection, sha256: str) -> bool:
    """Whether a version has this file."""
    return connection.execute(sa.select(_of.name).where(_of.sha256 == sha256)).first() is not None


def holding(connection: Connection, deletion: Deletion) -> tuple[str, ...]:
    """`name number` of those that hold samples which the deletion is about, gone or not."""
    since = 0.0 if deletion.since is None else deletion.since
    until = float("inf") if deletion.until is None else deletion.until
    query = sa.select(_whose.sha256, _whose.first_at, _whose.last_at, _whose.received)
    query = query.where(_whose.last_at >= since)
    if deletion.until is not None:
        query = query.where(_whose.first_at < until)
    if deletion.device is not None:
        query = query.where(_whose.device == deletion.device)
    files: set[str] = set()
    for sha256, first, last, times in connection.execute(query.execution_options(yield_per=_FETCH)):
        if sha256 in files:
            continue
        if since <= first < until or since <= last < until or _any_between(times, since, until):
            files.add(sha256)
    named = connection.execute(sa.select(_of.name, _of.number, _of.sha256))
    return tuple(
        f"{name} {number}"
        for name, number, sha256 in sorted(tuple(row) for row in named)
        if sha256 in files
    )


def _any_between(packed: bytes, since: float, until: float) -> bool:
    times: Iterable[float] = (at for (at,) in struct.iter_unpack("<d", packed))
    return any(since <= at < until for at in times)
