"""The window by the wall clock: over midnight, over both changes of the offset."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.batch.hours import parse_hours, zone_named
from shared.errors import Malformed

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_open_from_its_start_to_before_its_end() -> None:
    hours = parse_hours("09:30-17:00", UTC)
    assert not hours.are_open(at("2026-01-10T09:29:59"))
    assert hours.are_open(at("2026-01-10T09:30:00"))
    assert hours.are_open(at("2026-01-10T16:59:59"))
    assert not hours.are_open(at("2026-01-10T17:00:00"))


def test_over_midnight() -> None:
    hours = parse_hours("22:00-06:00", UTC)
    assert hours.are_open(at("2026-01-10T22:00"))
    assert hours.are_open(at("2026-01-11T00:00"))
    assert hours.are_open(at("2026-01-11T05:59:59"))
    assert not hours.are_open(at("2026-01-11T06:00"))
    assert hours.opening(at("2026-01-11T06:00")) == at("2026-01-11T22:00")


def test_opening_is_now_while_open() -> None:
    now = at("2026-01-11T23:10:05")
    assert parse_hours("22:00-06:00", UTC).opening(now) == now


def test_opening_is_a_whole_minute_of_the_wall_clock() -> None:
    hours = parse_hours("22:07-22:09", BERLIN)
    assert hours.opening(at("2026-01-11T12:00:31")) == at("2026-01-11T21:07")  # UTC+1
    assert hours.opening(at("2026-07-11T12:00:31")) == at("2026-07-11T20:07")  # UTC+2


def test_a_night_that_is_an_hour_shorter_ends_by_the_clock() -> None:
    """2026-03-29 in Berlin: 02:00 becomes 03:00."""
    hours = parse_hours("22:00-06:00", BERLIN)
    assert hours.are_open(at("2026-03-29T03:59"))  # 05:59 summer time
    assert not hours.are_open(at("2026-03-29T04:00"))


def test_hours_that_the_clock_skips_do_not_happen_that_night() -> None:
    hours = parse_hours("02:00-03:00", BERLIN)
    assert hours.opening(at("2026-03-28T02:00")) == at("2026-03-30T00:00")


def test_hours_cut_by_the_jump_end_with_it() -> None:
    hours = parse_hours("01:30-02:30", BERLIN)
    assert hours.are_open(at("2026-03-29T00:59"))  # 01:59
    assert not hours.are_open(at("2026-03-29T01:00"))  # 03:00


def test_hours_that_the_clock_repeats_happen_twice() -> None:
    """2026-10-25 in Berlin: 03:00 becomes 02:00."""
    hours = parse_hours("02:00-02:30", BERLIN)
    opens = [m for m in range(180) if hours.are_open(at("2026-10-24T23:30") + timedelta(minutes=m))]
    assert opens == [*range(30, 60), *range(90, 120)]


@given(
    st.integers(0, 1439), st.integers(0, 1439),
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001  given a zone below
)  # fmt: skip
def test_opening_is_the_first_open_minute(start: int, end: int, now: datetime) -> None:
    if start == end:
        return
    text = f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"
    hours = parse_hours(text, BERLIN)
    now = now.replace(tzinfo=UTC)
    opening = hours.opening(now)
    assert opening >= now
    assert hours.are_open(opening)
    if opening > now:
        assert not hours.are_open(opening - timedelta(seconds=1))


@pytest.mark.parametrize(
    "text", ["22-6", "24:00-06:00", "22:00-06:60", "22:00", "", "22:00-06:00 "]
)
def test_what_is_no_window_is_said_so(text: str) -> None:
    with pytest.raises(Malformed, match="write it as 22:00-06:00"):
        parse_hours(text, UTC)


def test_an_empty_window_is_refused() -> None:
    with pytest.raises(Malformed, match="is empty"):
        parse_hours("06:00-06:00", UTC)


@pytest.mark.parametrize("name", ["Mars/Olympus", "../../etc/passwd", "", "x\0y"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(Malformed, match=re.escape("Europe/Berlin")):
        zone_named(name)
