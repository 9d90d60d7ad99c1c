"""What is applied, and what is refused: damage, bombs, other files."""

import contextlib
import tracemalloc

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.delta.decoder import apply
from shared.delta.header import HEADER_BYTES, LITERAL, OPERATIONS_MAX
from shared.errors import HybridgeError, Malformed, NotTrusted, TooLarge
from tests.shared.delta.deltas import NEW, OLD, delta, frame, sha

GOOD = delta()
HUGE = 1 << 40


def applied(packed: bytes, old: bytes = OLD, bytes_max: int = len(NEW), to: bytes = NEW) -> bytes:
    return apply(old, packed, bytes_max=bytes_max, sha256=sha(to))


def test_copies_and_literals() -> None:
    assert applied(GOOD) == NEW


def test_differences_small_and_large_wrap_around() -> None:
    steps = bytes([0, 1, 255, 2, 128, 77] * 100)
    new = bytes((old + step) % 256 for old, step in zip(OLD, steps, strict=True))
    packed = delta([(0, 600)], steps, b"", new=new)
    assert applied(packed, bytes_max=600, to=new) == new


def test_an_empty_file_of_an_empty_file() -> None:
    assert applied(delta([], b"", b"", b"", b""), b"", 0, b"") == b""


@pytest.mark.parametrize("length", [0, 1, HEADER_BYTES - 1])
def test_what_is_shorter_than_a_header(length: int) -> None:
    with pytest.raises(Malformed, match="not a delta"):
        applied(GOOD[:length])


def test_what_does_not_begin_as_a_delta() -> None:
    with pytest.raises(Malformed, match="not a delta"):
        applied(b"X" + GOOD[1:])


def test_a_format_of_tomorrow() -> None:
    with pytest.raises(Malformed, match="format 2, this program reads 1"):
        applied(GOOD[:7] + b"\x02" + GOOD[8:])


@pytest.mark.parametrize("packed", [GOOD[:-1], GOOD + b"x"], ids=["cut", "lengthened"])
def test_another_length_than_it_states(packed: bytes) -> None:
    with pytest.raises(Malformed, match="bytes, by its header"):
        applied(packed)


def test_another_old_file() -> None:
    with pytest.raises(NotTrusted, match="which is not the file here"):
        applied(GOOD, bytes(len(OLD)))
    with pytest.raises(NotTrusted, match="which is not the file here"):
        applied(GOOD, OLD + b"x")


def test_another_new_file_than_was_asked_for() -> None:
    with pytest.raises(NotTrusted, match="the delta makes"):
        applied(GOOD, to=b"something else")


def test_what_it_makes_is_checked_as_a_whole() -> None:
    with pytest.raises(NotTrusted, match="has not the hash"):
        applied(delta(literals=b"headTAIL"))


def test_more_than_the_bound() -> None:
    with pytest.raises(TooLarge, match="at most 357 here"):
        applied(GOOD, bytes_max=len(NEW) - 1)


def test_too_many_operations() -> None:
    with pytest.raises(TooLarge, match="operations; at most"):
        applied(delta(header={"operations": OPERATIONS_MAX + 1}))


def test_more_literals_than_bytes() -> None:
    with pytest.raises(Malformed, match="more literals than"):
        applied(delta(header={"literal_bytes": len(NEW) + 1}))


@pytest.mark.parametrize(
    "operations",
    [
        [(LITERAL, 8), (50, 349)],
        [(LITERAL, 8), (50, 351)],
        [(LITERAL, 7), (50, 350)],
        [(LITERAL, 8), (50, 350), (0, HUGE)],
        [(LITERAL, 8), (50, 2**64 - 1)],
        [],
    ],
)
def test_operations_that_do_not_make_its_size(operations: list[tuple[int, int]]) -> None:
    with pytest.raises(Malformed, match="do not make the size"):
        applied(delta(operations))


@pytest.mark.parametrize("offset", [len(OLD) - 349, len(OLD), 2**63, 2**64 - 2])
def test_a_copy_from_beyond_the_old_file(offset: int) -> None:
    with pytest.raises(Malformed, match="beyond the old file's end"):
        applied(delta([(LITERAL, 4), (offset, 350), (LITERAL, 4)]))


@pytest.mark.parametrize("number", range(4))
def test_a_frame_that_is_no_frame(number: int) -> None:
    with pytest.raises(Malformed, match=r"damaged|cut short|more than"):
        applied(delta(differences=bytes([9] * 350), frames={number: b"not a frame"}))


@pytest.mark.parametrize("number", range(4))
def test_a_frame_that_ends_early(number: int) -> None:
    with pytest.raises(Malformed, match="cut short"):
        applied(delta(differences=bytes([9] * 350), frames={number: frame(b"x")}))


@pytest.mark.parametrize("number", range(4))
def test_a_frame_that_goes_on(number: int) -> None:
    """A gigabyte of zeros in a few kB: not unpacked further than the first byte too many."""
    more = zstandard.ZstdCompressor().compressobj()
    contents = {
        0: _unpacked(delta(), 0), 1: bytes(88), 2: b"", 3: b"headtail",
    }  # fmt: skip
    bomb = more.compress(contents[number]) + b"".join(
        more.compress(bytes(1 << 20)) for _ in range(64)
    )
    packed = delta(frames={number: bomb + more.flush()})
    tracemalloc.start()
    try:
        with pytest.raises(Malformed, match="more than its operations use"):
            applied(packed)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def _unpacked(packed: bytes, number: int) -> bytes:
    assert number == 0
    size = int.from_bytes(packed[HEADER_BYTES - 32 : HEADER_BYTES - 24], "little")
    return zstandard.decompress(packed[HEADER_BYTES : HEADER_BYTES + size])


def test_a_frame_that_wants_a_large_window() -> None:
    """Its window would be allocated, whatever comes then."""
    parameters = zstandard.ZstdCompressionParameters(window_log=24, write_content_size=False)
    wide = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = delta(frames={3: wide.compress(b"headtail") + wide.flush()})
    with pytest.raises(Malformed, match="too much memory"):
        applied(packed)


def test_a_header_that_states_everything_huge() -> None:
    with pytest.raises(TooLarge):
        applied(delta(header={"new_bytes": HUGE, "literal_bytes": HUGE}), bytes_max=1 << 20)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, len(GOOD)),
)
def test_a_mutated_delta_never_makes_wrong_bytes(
    mutations: list[tuple[int, int]], cut: int
) -> None:
    packed = bytearray(GOOD)
    for at, value in mutations:
        packed[at] = value
    for candidate in (bytes(packed), bytes(packed[:cut]), GOOD[:cut] + bytes(packed[cut:])):
        with contextlib.suppress(HybridgeError):
            assert applied(candidate) == NEW


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_refused(content: bytes) -> None:
    with pytest.raises(HybridgeError):
        applied(content)
    with pytest.raises(HybridgeError):
        applied(GOOD[:HEADER_BYTES] + content)
