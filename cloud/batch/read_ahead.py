"""Read and decode a few inputs ahead of the model, in threads, within a bound of bytes.

Inputs travel in groups: a thread's hop costs as much as a small image's decoding.
"""

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from dataclasses import dataclass

from cloud.batch.reading import Pixels, rows_expected, rows_of
from cloud.batch.source import Found, Source
from shared.errors import Refused, TooLarge
from shared.imaging.decode import FILE_BYTES_MAX

_GROUP_FILES = 8
_GROUPS = 8  # in flight: an object store answers in tens of milliseconds
_BYTES_MAX = 64 * 1024 * 1024  # of all groups in flight, but for a single larger input


@dataclass(frozen=True, slots=True)
class Read:
    """One input's rows, or what was wrong with it."""

    found: Found
    rows_expected: int  # judged by its name and size
    rows: Pixels | None  # [N, *shape]
    why_not: str | None = None


async def read_ahead(
    source: Source, inputs: Iterable[Found], shape: tuple[int, ...]
) -> AsyncGenerator[Read]:
    """All inputs in their order. Raises `Unavailable` when the source is; then nothing is lost."""
    waiting = _grouped(inputs)
    in_flight: deque[tuple[int, asyncio.Task[list[Read]]]] = deque()
    following = next(waiting, None)
    try:
        while in_flight or following:
            while following and len(in_flight) < _GROUPS:
                cost = sum(_cost_bytes(one) for one in following)
                if in_flight and cost + sum(held for held, _ in in_flight) > _BYTES_MAX:
                    break
                reading = asyncio.create_task(
                    asyncio.to_thread(_read_group, source, following, shape)
                )
                in_flight.append((cost, reading))
                following = next(waiting, None)
            _, reading = in_flight[0]
            group = await reading
            in_flight.popleft()
            group.reverse()
            while group:
                yield group.pop()  # its pixels are not kept here
    finally:
        for _, reading in in_flight:
            reading.cancel()
        await asyncio.gather(*(reading for _, reading in in_flight), return_exceptions=True)


def _grouped(inputs: Iterable[Found]) -> Iterator[list[Found]]:
    group: list[Found] = []
    for one in inputs:
        alone = _cost_bytes(one) > _BYTES_MAX // _GROUPS
        if group and (alone or len(group) == _GROUP_FILES):
            yield group
            group = []
        group.append(one)
        if alone:
            yield group
            group = []
    if group:
        yield group


def _cost_bytes(one: Found) -> int:
    """What it may take in memory; an archive may unpack to the bound."""
    return FILE_BYTES_MAX if one.name.endswith(".npz") else one.size_bytes


def _read_group(source: Source, group: Sequence[Found], shape: tuple[int, ...]) -> list[Read]:
    return [_read(source, one, shape) for one in group]


def _read(source: Source, found: Found, shape: tuple[int, ...]) -> Read:
    expected = rows_expected(found.name, found.size_bytes, math.prod(shape))
    if found.why_not is not None:
        return Read(found, expected, None, f"{found.name}: {found.why_not}")
    try:
        if found.size_bytes > FILE_BYTES_MAX:
            raise TooLarge(f"{found.name}: {found.size_bytes} bytes; at most {FILE_BYTES_MAX}")
        return Read(found, expected, rows_of(source.read(found), found.name, shape))
    except Refused as error:
        return Read(found, expected, None, str(error))
