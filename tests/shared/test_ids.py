from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import Malformed
from shared.ids import device_id, sample_id
from shared.new_ids import new_sample_id


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_a_sample_id_is_a_uuid_of_version_7(unix_ms: int, noise: bytes) -> None:
    made = new_sample_id(unix_ms, noise)
    assert made.version == 7
    assert made.variant == UUID("00000000-0000-7000-8000-000000000000").variant
    assert made.int >> 80 == unix_ms
    assert sample_id(str(made)) == made


@given(st.integers(0, 2**47), st.integers(1, 2**40))
def test_sample_ids_sort_by_time(unix_ms: int, later_ms: int) -> None:
    assert new_sample_id(unix_ms) < new_sample_id(unix_ms + later_ms)


def test_sample_ids_of_one_millisecond_differ() -> None:
    assert len({new_sample_id(1) for _ in range(1000)}) == 1000


@pytest.mark.parametrize("text", ["", "x", "0" * 31, "0" * 33, "zz" * 16])
def test_text_that_is_no_sample_id(text: str) -> None:
    with pytest.raises(Malformed, match="is not a UUID"):
        sample_id(text)


@pytest.mark.parametrize("text", ["d", "cam-1", "A_b.c-9", "9" * 64])
def test_device_ids(text: str) -> None:
    assert device_id(text) == text


@pytest.mark.parametrize(
    "text", ["", "-a", ".a", "_a", "a/b", "a+", "#", "a b", "é", "a\n", "x" * 65, "a\0"]
)
def test_text_that_is_no_device_id(text: str) -> None:
    with pytest.raises(Malformed, match="use 1 to 64 of letters"):
        device_id(text)


def test_a_long_device_id_is_not_repeated_whole() -> None:
    with pytest.raises(Malformed) as refusal:
        device_id("x" * 10_000)
    assert len(str(refusal.value)) < 300
