import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.api.room import Room
from shared.errors import Overloaded


def test_what_is_not_left_is_refused_and_what_was_taken_comes_back() -> None:
    room = Room(10)
    with room.share() as first, room.share() as second:
        first.take(6)
        second.take(4)
        with pytest.raises(Overloaded, match="10 bytes"):
            second.take(1)
        assert room.taken_bytes == 10
    assert room.taken_bytes == 0


def test_a_request_that_fails_gives_its_part_back() -> None:
    room = Room(10)
    with pytest.raises(ZeroDivisionError), room.share() as share:
        share.take(7)
        raise ZeroDivisionError
    assert room.taken_bytes == 0


@given(st.lists(st.lists(st.integers(0, 8), max_size=5), max_size=5))
def test_never_over_and_never_under(requests: list[list[int]]) -> None:
    room = Room(20)
    for chunks in requests:
        with room.share() as share:
            for chunk in chunks:
                if room.taken_bytes + chunk > 20:
                    with pytest.raises(Overloaded):
                        share.take(chunk)
                else:
                    share.take(chunk)
                assert 0 <= share.taken_bytes == room.taken_bytes <= 20
    assert room.taken_bytes == 0
