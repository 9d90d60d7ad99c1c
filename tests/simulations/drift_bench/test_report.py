"""What the tables say, and what of them falls short."""

import pytest

from cloud.monitoring.drift.documents import Alarm, Cause, Kind, Scope
from simulations.drift_bench.report import BEGIN, END, block, missed, replaced
from simulations.drift_bench.stream import Stream
from simulations.drift_bench.verdict import Outcome, Where

FALSE = Alarm(
    id="a", kind=Kind.INPUT, scope=Scope(kind="device", name="cam", model="m", version="1.0.0"),
    cause=Cause.SENSOR, words="w", runbook="r", command="c", opened_at=1.0,
)  # fmt: skip
Result = tuple[Stream, Outcome]


def drifting(
    seed: int, delay: int | None, wrong: int = 0, where: Where = "a group", causes: str = ""
) -> Result:
    """`causes`: of device alarms about what drifts."""
    right = [FALSE.model_copy(update={"cause": Cause(one)}) for one in causes.split()]
    return Stream("blur 1.0", where, seed), Outcome([delay], right, [FALSE] * wrong)


def quiet(seed: int, wrong: int = 0) -> Result:
    return Stream(None, "the fleet", seed), Outcome(wrong=[FALSE] * wrong, days=1.0)


def results(*found: Result) -> dict[Stream, Outcome]:
    """And a quiet day."""
    return dict([*found, quiet(99)])


def test_delays_and_false_alarms_are_in_the_tables() -> None:
    text = block(dict([drifting(0, 100), drifting(1, 150), drifting(2, 300, 1), quiet(3, 1)]))
    assert "4 streams, seeds 0 to 3, " in text
    assert "| blur 1.0 | - | - | 150 / 270 | - | - |" in text
    words = " ".join(text.split())
    assert "Of 3 groups that drifted as a whole," in words
    assert "2 were named within 200 samples" in words
    assert "nothing drifts: 1 (1 input of a device) in 1 days of 24 cameras" in words
    assert "else does: 1 (1 input of a device), in 1 of 3 streams." in words
    assert max(map(len, text.splitlines())) <= 130


def test_a_block_says_whether_every_target_is_met() -> None:
    assert block(results(drifting(0, 100))).endswith("Every target is met.")
    assert "Missed:\n\n- blur 1.0 in a group, seed 1: never" in block(results(drifting(1, None)))


def test_what_is_never_named_is_missed() -> None:
    found = results(drifting(0, 100), drifting(1, 100), drifting(2, None))
    assert missed(found) == ["blur 1.0 in a group, seed 2: never named"]
    assert "100 / 100, 1 of 3 never" in block(found)


@pytest.mark.parametrize("where", ["a group", "half the fleet"])
def test_a_group_is_named_within_200_samples_in_the_median(where: Where) -> None:
    soon, late = drifting(0, 200, where=where), drifting(1, 250, where=where)
    assert missed(results(soon, drifting(2, 100, where=where), late)) == []
    assert missed(results(soon, late)) == [
        f"blur 1.0 in {where}: a group is named after 225 samples in the median, at most 200"
    ]


def test_what_is_never_named_is_late_too() -> None:
    found = missed(results(drifting(0, 100), drifting(1, None), drifting(2, None)))
    assert "a group is named after inf samples in the median" in found[-1]


@pytest.mark.parametrize("where", ["a device", "half a group", "the fleet"])
def test_of_others_the_issue_says_nothing(where: Where) -> None:
    assert missed(results(drifting(0, 900, where=where))) == []


@pytest.mark.parametrize(("wrong", "words"), [(1, []), (2, ["2 false alarms in 10 days"])])
def test_one_false_alarm_in_ten_days_is_allowed(wrong: int, words: list[str]) -> None:
    days = [quiet(1, wrong), *(quiet(seed) for seed in range(2, 11))]
    found = missed(dict([drifting(0, 100), *days]))
    assert [one[: len("2 false alarms in 10 days")] for one in found] == words


def test_blaming_others_is_counted() -> None:
    (found,) = missed(results(drifting(0, 100, wrong=1), drifting(1, 100)))
    assert "about what does not drift in 1 of 2 streams" in found


def test_causes_are_judged_and_shown_by_place() -> None:
    alone = drifting(0, 100, where="a device", causes="sensor sensor unknown")
    found = results(alone, drifting(1, 100, causes="unknown sensor model"))
    assert missed(found) == ["a group: a wrong cause in 2 of 3 alarms, at most 5%"]
    text = block(found)
    assert "| `sensor` | 2 | 0 | 1 | 0 | 0 |" in text
    assert "| `unknown` | 1 | 0 | 1 | 0 | 0 |" in text
    assert "| a wrong one | 0 of 3 | 0 of 0 | 2 of 3 | 0 of 0 | 0 of 0 |" in text
    assert missed(results(alone)) == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([drifting(0, 100)], ["there was no day in which nothing drifted"]),
        ([quiet(0)], ["nothing drifted in any stream"]),
    ],
)
def test_what_was_not_tried_is_missed(found: list[Result], words: list[str]) -> None:
    assert missed(dict(found)) == words


def test_the_block_is_written_between_its_markers() -> None:
    found = dict([quiet(0)])
    page = replaced(f"a\n{BEGIN}\nold\n{END}\nb", found)
    assert page == f"a\n{BEGIN}\n\n{block(found)}\n\n{END}\nb"
    with pytest.raises(ValueError, match="it needs the markers"):
        replaced("nothing", found)
