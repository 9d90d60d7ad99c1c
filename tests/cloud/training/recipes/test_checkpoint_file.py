import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.training.recipes.checkpoint_file import framed, verified
from shared.errors import HybridgeError, Malformed, NotTrusted, Unknown

KEY = "ab" * 32
WHOLE = framed(KEY, 7, b"payload\nwith a line break")


def test_what_was_framed_is_verified() -> None:
    found = verified(WHOLE, "step-7")
    assert (found.key, found.step, found.payload) == (KEY, 7, b"payload\nwith a line break")


def test_a_file_that_was_cut_off_is_refused_with_how_much_is_there() -> None:
    with pytest.raises(Malformed, match="step-7: has 23 of 25 bytes; it was cut off"):
        verified(WHOLE[:-2], "step-7")


def test_a_changed_byte_is_refused() -> None:
    with pytest.raises(NotTrusted, match="SHA-256"):
        verified(WHOLE[:-1] + b"?", "step-7")


def test_another_versions_file_is_refused_with_both_versions() -> None:
    with pytest.raises(Unknown, match="version 2, this program reads 1"):
        verified(WHOLE.replace(b"checkpoint 1 ", b"checkpoint 2 "), "step-7")


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"PK\x03\x04", b"hybridge-checkpoint\n", b"x" * 9999]
)
def test_a_file_that_is_no_checkpoint_is_refused(content: bytes) -> None:
    with pytest.raises(Malformed, match="is no checkpoint"):
        verified(content, "step-7")


def test_a_damaged_first_line_is_refused() -> None:
    with pytest.raises(Malformed, match="first line"):
        verified(WHOLE.replace(b" 7 ", b" -7 "), "step-7")


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_no_single_damaged_byte_goes_unseen_except_in_step_or_key(where: int, by: int) -> None:
    damaged = bytearray(WHOLE)
    damaged[where] ^= by
    try:
        found = verified(bytes(damaged), "step-7")
    except HybridgeError:
        return
    assert found.payload == verified(WHOLE, "step-7").payload
    assert (found.key, found.step) != (KEY, 7)  # the reader compares them with what it wants


@given(st.binary(max_size=600))
def test_any_bytes_are_refused_in_words(content: bytes) -> None:
    with pytest.raises(HybridgeError):
        verified(content, "step-7")
