from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.rollouts.windows import opens_at, parse
from shared.errors import Malformed


def at(text: str, zone: str, fold: int = 0) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp()


def shown(seconds: float, zone: str) -> str:
    return datetime.fromtimestamp(seconds, ZoneInfo(zone)).isoformat()


def test_without_windows_it_is_always_open():
    assert opens_at((), "UTC", 5.0) == 5.0


@pytest.mark.parametrize(
    ("now", "opens"),
    [
        ("2026-05-04T00:30", "2026-05-04T01:00:00+02:00"),
        ("2026-05-04T03:00", "2026-05-04T03:00:00+02:00"),
        ("2026-05-04T05:00", "2026-05-04T22:00:00+02:00"),
        ("2026-05-04T23:59", "2026-05-04T23:59:00+02:00"),
        ("2026-05-05T00:10", "2026-05-05T01:00:00+02:00"),
    ],
)
def test_it_opens_by_the_device_s_own_clock(now: str, opens: str):
    hours = parse(("01:00-05:00", "22:00-00:10"))
    assert shown(opens_at(hours, "Europe/Paris", at(now, "Europe/Paris")), "Europe/Paris") == opens


def test_a_window_that_the_clock_jumps_over_opens_at_the_first_minute_after():
    hours = parse(("02:15-03:30",))
    now = at("2026-03-29T01:30", "Europe/Paris")  # 02:00 -> 03:00 this night
    found = opens_at(hours, "Europe/Paris", now)
    assert shown(found, "Europe/Paris") == "2026-03-29T03:00:00+02:00"


def test_a_window_that_lies_in_the_jump_alone_does_not_open_that_day():
    hours = parse(("02:15-02:45",))
    now = at("2026-03-29T01:30", "Europe/Paris")
    found = opens_at(hours, "Europe/Paris", now)
    assert shown(found, "Europe/Paris") == "2026-03-30T02:15:00+02:00"


def test_an_hour_that_comes_twice_is_open_twice():
    hours = parse(("02:15-02:45",))
    first = opens_at(hours, "Europe/Paris", at("2026-10-25T01:00", "Europe/Paris"))
    assert shown(first, "Europe/Paris") == "2026-10-25T02:15:00+02:00"
    again = opens_at(hours, "Europe/Paris", at("2026-10-25T02:50", "Europe/Paris"))
    assert shown(again, "Europe/Paris") == "2026-10-25T02:15:00+01:00"


def test_a_zone_that_nobody_knows_is_utc():
    for name in ("Mars/Base", "../../etc/passwd", "", "Europe"):
        assert opens_at(parse(("01:00-02:00",)), name, 0.0) == 3600.0


def test_an_empty_window_and_a_wrong_hour_are_refused():
    with pytest.raises(Malformed, match="is empty"):
        parse(("01:00-01:00",))
    with pytest.raises(Malformed, match="29:00"):
        parse(("29:00-01:00",))


@given(
    st.floats(0, 4e9),
    st.sampled_from(
        ["UTC", "Europe/Paris", "America/St_Johns", "Australia/Lord_Howe", "Asia/Tokyo"]
    ),
    st.tuples(st.integers(0, 95), st.integers(0, 95)).filter(lambda two: two[0] != two[1]),
)
def test_it_opens_some_day_and_is_open_then(now: float, zone: str, quarters: tuple[int, int]):
    opens, closes = (f"{q // 4:02}:{q % 4 * 15:02}" for q in quarters)
    hours = parse((f"{opens}-{closes}",))
    found = opens_at(hours, zone, now)
    assert now <= found <= now + 3 * 86_400
    assert hours[0].holds(datetime.fromtimestamp(found, ZoneInfo(zone)).time())
