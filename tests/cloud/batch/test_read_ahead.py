"""Reading ahead: in order, within its bounds, and what a source that fails leaves."""

import asyncio
import threading
from contextlib import aclosing

import pytest

from cloud.batch.read_ahead import Read, read_ahead
from cloud.batch.source import Found
from shared.errors import Malformed, Unavailable
from shared.imaging.decode import FILE_BYTES_MAX
from tests.cloud.batch.images import noise, npy

MIB = 1024 * 1024
CONTENT = npy(noise(2))


class Counting:
    """A source that notes how many bytes are asked for at once."""

    where = "memory"

    def __init__(self, fails_at: str = "") -> None:
        self.reads: list[str] = []
        self._fails_at, self._lock = fails_at, threading.Lock()

    def find(self) -> list[Found]:
        return []

    def read(self, found: Found) -> bytes:
        if found.name == self._fails_at:
            raise Unavailable(f"{found.name}: the store is away")
        with self._lock:
            self.reads.append(found.name)
        return CONTENT


def inputs(count: int, size_bytes: int = 100, suffix: str = "npy") -> list[Found]:
    return [Found(f"{number:04}.{suffix}", size_bytes, "t", 0.0) for number in range(count)]


def read_all(source: Counting, found: list[Found]) -> list[Read]:
    async def main() -> list[Read]:
        async with aclosing(read_ahead(source, found, (4, 4))) as reads:
            return [read async for read in reads]

    return asyncio.run(main())


def read_first(source: Counting, found: list[Found]) -> int:
    """How many inputs were read by the time the first was taken and the reading was ended."""

    async def main() -> None:
        async with aclosing(read_ahead(source, found, (4, 4))) as reads:
            await anext(reads)

    asyncio.run(main())
    return len(source.reads)


def test_all_in_their_order() -> None:
    found = inputs(1000)
    reads = read_all(Counting(), found)
    assert [read.found for read in reads] == found
    assert all(read.rows is not None and read.rows.shape == (2, 4, 4) for read in reads)


def test_no_more_ahead_than_eight_groups_of_eight() -> None:
    assert read_first(Counting(), inputs(1000)) <= 64


def test_no_more_ahead_than_64_mib() -> None:
    assert read_first(Counting(), inputs(1000, 20 * MIB)) <= 3


def test_an_archive_counts_as_what_it_may_unpack_to() -> None:
    assert read_first(Counting(), inputs(1000, 100, "npz")) == 1


def test_an_input_over_the_bound_is_not_read() -> None:
    source = Counting()
    (read,) = read_all(source, inputs(1, FILE_BYTES_MAX + 1))
    assert read.rows is None
    assert read.why_not == f"0000.npy: {FILE_BYTES_MAX + 1} bytes; at most {FILE_BYTES_MAX}"
    assert source.reads == []


def test_a_source_that_is_away_ends_it_after_what_came_before() -> None:
    async def main() -> list[str]:
        names = []
        async with aclosing(read_ahead(Counting("0016.npy"), inputs(40), (4, 4))) as reads:
            with pytest.raises(Unavailable, match="the store is away"):
                async for read in reads:
                    names.append(read.found.name)  # noqa: PERF401  what came before counts
        return names

    assert asyncio.run(main()) == [f"{number:04}.npy" for number in range(16)]


def test_what_the_listing_found_wrong_is_passed_on() -> None:
    source = Counting()
    (read,) = read_all(source, [Found("link", 0, "", 0.0, "a link")])
    assert (read.rows, read.why_not, source.reads) == (None, "link: a link", [])


def test_a_source_that_refuses_one_input() -> None:
    class Refusing(Counting):
        def read(self, found: Found) -> bytes:
            raise Malformed(f"{found.name}: changed")

    (read,) = read_all(Refusing(), inputs(1))
    assert (read.rows, read.why_not) == (None, "0000.npy: changed")
