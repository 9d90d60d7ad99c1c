"""What the tables say, and what of them falls short."""

import pytest

from cloud.monitoring.drift.documents import Alarm, Cause, Kind, Scope
from simulations.drift_bench.report import BEGIN, END, block, missed, replaced
from simulations.drift_bench.stream import Outcome, Stream

FALSE = Alarm(
    id="a", kind=Kind.INPUT, scope=Scope(kind="device", name="cam", model="m", version="1.0.0"),
    cause=Cause.SENSOR, words="w", runbook="r", command="c", opened_at=1.0,
)  # fmt: skip


def drifting(seed: int, delay: int | None, wrong: int = 0) -> tuple[Stream, Outcome]:
    return Stream("blur 1.0", "a group", seed), Outcome(delay, [FALSE] * wrong)


def quiet(seed: int, wrong: int) -> tuple[Stream, Outcome]:
    return Stream(None, "the fleet", seed), Outcome(None, [FALSE] * wrong, 1.0)


def test_delays_and_false_alarms_are_in_the_tables() -> None:
    text = block(dict([drifting(0, 100), drifting(1, 150), drifting(2, 300), quiet(3, 1)]))
    assert "| blur 1.0 | - | - | 150 / 270 | - | - |" in text
    assert "1 in 1 days of 24 cameras" in text
    assert "0 in 3 streams" in text


def test_what_is_never_named_is_missed() -> None:
    found = dict([drifting(0, 100), drifting(1, None)])
    assert missed(found) == ["blur 1.0 in a group, seed 1: never named"]
    assert "100 / 100, 1 of 2 never" in block(found)


@pytest.mark.parametrize(("wrong", "words"), [(1, []), (2, ["2 false alarms in 10 days"])])
def test_one_false_alarm_in_ten_days_is_allowed(wrong: int, words: list[str]) -> None:
    found = missed(dict([quiet(0, wrong), *(quiet(seed, 0) for seed in range(1, 10))]))
    assert [one[: len("2 false alarms in 10 days")] for one in found] == words


def test_blaming_others_is_counted() -> None:
    (found,) = missed(dict([drifting(0, 100, wrong=1), drifting(1, 100)]))
    assert "the wrong scope in 1 of 2 streams" in found


def test_the_block_is_written_between_its_markers() -> None:
    results = dict([quiet(0, 0)])
    page = replaced(f"a\n{BEGIN}\nold\n{END}\nb", results)
    assert page == f"a\n{BEGIN}\n\n{block(results)}\n\n{END}\nb"
    with pytest.raises(ValueError, match="it needs the markers"):
        replaced("nothing", results)
