from io import StringIO

import pytest
from rich.console import Console, RenderableType

from cloud.cli import rollout_plan_drawing
from cloud.cli.rollout_drawing import (
    Look,
    change_in,
    draw,
    earliest_end_s,
    interval_text,
    is_over,
    look_for,
    state_text,
    subject_text,
    summary,
    waits_for,
)
from cloud.cli.rollout_gauge import PLAIN
from cloud.rollouts.documents import PlannedStage, RolloutPlan, RolloutStatus, RolloutView
from tests.cloud.cli.rollout_views import CRITERIA, HOUR, NOW, STAGES, profile_spec, spec, view

LOOK = Look(PLAIN)


def text(drawn: RenderableType, columns: int = 200) -> str:
    out = StringIO()
    Console(file=out, width=columns, markup=False, highlight=False, no_color=True).print(drawn)
    return out.getvalue()


def lines_with(word: str, drawn: str) -> list[str]:
    return [line for line in drawn.splitlines() if word in line]


def test_all_of_a_rollout() -> None:
    drawn = text(draw(view(), NOW, LOOK))
    assert drawn.splitlines()[0].rstrip() == "lyon-12: fashion-edge 1.4.0 -> group lyon"
    assert "running: canary" in drawn.splitlines()[1]
    (canary,) = lines_with(" canary ", drawn)
    bar, *cells = canary.split()
    assert cells == ["canary", "3/5", "1", "1", "for", "2", "h"]
    assert bar == "#" * 19 + ">" * 7 + "x" * 6
    (shadow,) = lines_with(" shadow ", drawn)
    assert "took 1 h" in shadow
    disagreement, why = lines_with("disagreement", drawn)
    assert "3.1% [1%, 9%]" in disagreement
    assert "4%" in disagreement
    assert "380 / 4,100" in disagreement
    assert disagreement.split()[-1] == "open"
    assert why.strip() == "disagreement: its upper end is over the bound"
    (latency,) = lines_with("p95_latency_ms", drawn)
    assert "12 ms [11 ms, 13.5 ms]" in latency
    assert "17.25 ms" in latency
    assert "waits for 1 device, and 120 of 500 samples" in drawn
    assert lines_with("at the earliest", drawn)


def test_a_narrow_terminal_without_other_characters_has_all_of_it_in_a_line_each() -> None:
    drawn = text(draw(view(), NOW, look_for(80, "ascii")), 80)
    assert drawn.isascii() or set(drawn) - set("─ ") == set(filter(str.isascii, drawn)) - {" "}
    assert max(map(len, drawn.splitlines())) <= 80
    assert len(lines_with(" canary ", drawn)) == 1
    (latency,) = lines_with("p95_latency_ms", drawn)
    assert latency.split()[-5:] == ["12", "ms", "17.25", "ms", "holds"]
    assert (look_for(200, "utf-8"), look_for(200, "ascii").marks) == (Look(), PLAIN)


def test_what_came_from_elsewhere_moves_no_cursor_and_is_no_markup() -> None:
    evil = "\x1b[2J[red]x[/red]\r\n"
    criteria = (CRITERIA[0].model_copy(update={"words": evil}),)
    drawn = text(draw(view(why=evil, criteria=criteria), NOW, LOOK))
    assert "\x1b" not in drawn
    assert "?[2J[red]x[/red]" in drawn
    assert "\x1b" not in summary(view(why=evil))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": RolloutStatus.DRAFT}, "its start: hybridge rollout start lyon-12"),
        ({"waiting_for_approval": True}, "a person: hybridge rollout approve lyon-12 -m WHY"),
        ({"status": RolloutStatus.PAUSED}, "a person: hybridge rollout resume lyon-12 -m WHY"),
        ({"undoing": True}, "its devices to report that they are back"),
        ({"status": RolloutStatus.SUCCEEDED}, ""),
        ({}, "1 device, and 120 of 500 samples"),
        ({"stage": 9}, ""),
    ],
)
def test_what_it_waits_for(changes: dict[str, object], words: str) -> None:
    assert waits_for(view(**changes)) == words


def test_an_end_while_devices_go_back_is_none() -> None:
    assert not is_over(view(status=RolloutStatus.ABORTED, undoing=True))
    assert is_over(view(status=RolloutStatus.ABORTED))
    assert not is_over(view(status=RolloutStatus.PAUSED))


def test_the_earliest_end_counts_the_stages_that_are_left() -> None:
    watch = spec().watch_s
    assert earliest_end_s(view(), NOW) == HOUR + HOUR + watch  # a device installs: begins anew
    quiet = STAGES[1].model_copy(update={"in_flight": 0, "opened_at": NOW - 600})
    stages = (STAGES[0], quiet, *STAGES[2:])
    assert earliest_end_s(view(stages=stages), NOW) == HOUR - 600 + HOUR + watch
    assert earliest_end_s(view(stage=3), NOW) == watch


@pytest.mark.parametrize(
    "changes",
    [
        {"status": RolloutStatus.PAUSED}, {"waiting_for_approval": True}, {"undoing": True},
        {"status": RolloutStatus.DRAFT}, {"stages": ()},
        {"criteria": (CRITERIA[0].model_copy(update={"verdict": "violated"}),)},
    ],
)  # fmt: skip
def test_no_end_is_told_where_nobody_knows(changes: dict[str, object]) -> None:
    assert earliest_end_s(view(**changes), NOW) is None


def test_a_line_says_what_changed() -> None:
    said = summary(view())
    assert said == (
        "lyon-12 running: canary; 3/5 done, 1 in flight, 1 failed, 0 queued; "
        "disagreement <= control + 0.02: open; waits for 1 device, and 120 of 500 samples"
    )
    ended = view(status=RolloutStatus.ROLLED_BACK, why="golden samples failed on 1 device")
    assert summary(ended) == (
        "lyon-12 rolled back; disagreement <= control + 0.02: open; golden samples failed on 1 device"
    )


def test_words_for_a_state() -> None:
    assert state_text(view(attempt=2)) == "running: canary, attempt 2"
    assert state_text(view(undoing=True)) == "running, its devices go back"
    assert state_text(view(stage=2)) == "running: wave 2"
    assert subject_text(profile_spec("camera", 3)) == "profile camera 3"


def test_an_interval_without_a_point_is_still_told() -> None:
    assert interval_text(CRITERIA[0], None, 0.01, 0.02) == "[1%, 2%]"
    assert interval_text(CRITERIA[2], None, None, None) == ""


def test_a_plan_says_who_moves_when_and_on_what_evidence() -> None:
    plan = RolloutPlan(
        spec=spec(window=("22:00-05:00",)),
        devices=50,
        stages=(
            PlannedStage(
                kind="canary", number=0, devices=("cam-1", "cam-2", "cam-3"), count=3,
                earliest_s=0, needs=("3 devices done", "500 samples", "golden_failures <= 0 (share)"),
            ),
            PlannedStage(
                kind="wave", number=1, devices=tuple(f"cam-{n}" for n in range(4, 51)), count=47,
                earliest_s=3600, needs=("all holds",), approval=True,
            ),
        ),
        warnings=("a canary of 3 devices sees little",),
    )  # fmt: skip
    drawn = text(rollout_plan_drawing.draw(plan))
    assert "fashion-edge 1.4.0 -> group lyon: 50 devices" in drawn
    assert "only within 22:00-05:00 of each device's day" in drawn
    assert drawn.splitlines()[0].rstrip() == "fashion-edge 1.4.0 -> group lyon: 50 devices"
    (canary,) = lines_with("canary ", drawn)[:1]
    assert "at once" in canary
    assert "cam-1, cam-2, cam-3" in canary
    assert "3 devices done" in canary
    assert lines_with("500 samples", drawn)
    (wave,) = lines_with("wave 1", drawn)
    assert "after 1 h, if a person approves" in wave
    assert "and 41 more" in wave
    assert "warning: a canary of 3 devices sees little" in drawn
    (stops,) = lines_with("surely violated", drawn)
    assert "golden_failures <= 0" in stops


def test_a_countdown_is_no_change() -> None:
    def waiting(words: str, **stage: int) -> RolloutView:
        canary = STAGES[1].model_copy(update={"waits_for": words, **stage})
        return view(stages=(STAGES[0], canary, *STAGES[2:]))

    first = change_in(waiting("time to gather evidence: 3596 s more"))
    assert first == change_in(waiting("time to gather evidence: 3594 s more"))
    assert first != change_in(waiting("samples on the new version: 12 of 500"))
    assert first != change_in(waiting("time to gather evidence: 3594 s more", done=4, in_flight=0))


def test_a_plan_says_only_what_its_stages_ask_for() -> None:
    stages = (PlannedStage(kind="canary", number=1, count=1, devices=("cam-1",), earliest_s=0,
                           needs=("silent <= 0.05 (share of devices)",)),)  # fmt: skip
    plan = RolloutPlan(spec=profile_spec("camera", 3), devices=1, stages=stages)
    (said,) = lines_with("surely violated", text(rollout_plan_drawing.draw(plan)))
    assert said.split(": ")[1].strip() == "silent <= 0.05"
