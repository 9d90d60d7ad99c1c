"""A rollout as a person sees it: stages as bars, evidence as gauges, what it waits for. Pure: takes a
view and the time, gives what `rich` prints.
"""

import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from cloud.cli.output import cell, moment
from cloud.cli.rollout_gauge import BLOCKS, PLAIN, Marks, bar, bound_of, counts, gauge, parsed
from cloud.cli.rollout_words import percent, span
from cloud.rollouts.documents import (
    CriterionView,
    ModelSubject,
    PlannedStage,
    RolloutSpec,
    RolloutStatus,
    RolloutView,
    StageView,
)

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

_NUMBER: Final = re.compile(r"\d[\d.,]*")
ENDS: Final = frozenset({RolloutStatus.ABORTED, RolloutStatus.ROLLED_BACK, RolloutStatus.SUCCEEDED})
_STATUS_STYLE: Final = {
    RolloutStatus.DRAFT: "dim", RolloutStatus.RUNNING: "cyan", RolloutStatus.PAUSED: "yellow",
    RolloutStatus.ABORTED: "red", RolloutStatus.ROLLED_BACK: "red", RolloutStatus.SUCCEEDED: "green",
}  # fmt: skip
_VERDICT_STYLE: Final = {
    "holds": "green", "violated": "bold red", "open": "yellow", "no data": "dim",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Look:
    """What a terminal has room and characters for; cells of a bar and of a gauge."""

    marks: Marks = BLOCKS
    bar: int = 32
    gauge: int = 24
    is_narrow: bool = False


WIDE: Final = Look()
_WIDE_COLUMNS: Final = 130


def look_for(columns: int, encoding: str) -> Look:
    """Of a terminal with so many columns, whose characters are encoded so."""
    marks = BLOCKS if encoding.lower().startswith("utf") else PLAIN
    return Look(marks) if columns >= _WIDE_COLUMNS else Look(marks, 14, 12, is_narrow=True)


def is_over(view: RolloutView) -> bool:
    """Nothing will happen to it any more, unless somebody says so."""
    return view.status in ENDS and not view.undoing


def subject_text(spec: RolloutSpec) -> str:
    """As `fashion-edge 1.4.0`, or `profile camera 3`."""
    subject = spec.subject
    if isinstance(subject, ModelSubject):
        return f"{subject.model} {subject.version}"
    return f"profile {subject.name} {subject.version}"


def stage_text(stage: PlannedStage | StageView) -> str:
    return f"wave {stage.number}" if stage.kind == "wave" else stage.kind


def title(view: RolloutView) -> str:
    where = f"group {view.spec.group}"
    if view.spec.selector:
        where += f" ({view.spec.selector})"
    return f"{view.id}: {subject_text(view.spec)} -> {where}"


def state_text(view: RolloutView) -> str:
    """The status, and what it is at."""
    words = str(view.status).replace("_", " ")
    if view.undoing:
        words += ", its devices go back"
    elif view.status in {RolloutStatus.RUNNING, RolloutStatus.PAUSED} and (at := present(view)):
        words += f": {stage_text(at)}"
    if view.attempt > 1:
        words += f", attempt {view.attempt}"
    return words


def present(view: RolloutView) -> StageView | None:
    """The stage that is open."""
    return view.stages[view.stage] if view.stage < len(view.stages) else None


def waits_for(view: RolloutView) -> str:
    """In words; empty: for nothing."""
    at = present(view)
    if is_over(view):
        return ""
    if view.status is RolloutStatus.DRAFT:
        return f"its start: hybridge rollout start {view.id}"
    if view.undoing:
        return "its devices to report that they are back"
    if view.waiting_for_approval:
        return f"a person: hybridge rollout approve {view.id} -m WHY"
    if view.status is RolloutStatus.PAUSED:
        return f"a person: hybridge rollout resume {view.id} -m WHY"
    return "" if at is None else at.waits_for


def earliest_end_s(view: RolloutView, now: float) -> float | None:
    """Seconds until it can have succeeded, if every stage takes its least time; None: who knows.

    It takes longer where devices are away, samples come slowly or a maintenance window is closed.
    """
    at = present(view)
    if view.status is not RolloutStatus.RUNNING or view.undoing or at is None:
        return None
    if view.waiting_for_approval or any(one.verdict == "violated" for one in view.criteria):
        return None
    least = {
        "canary": view.spec.wave_s, "wave": view.spec.wave_s, "watch": view.spec.watch_s,
        "shadow": 0.0,  # it ends with its samples, which may be there already
    }  # fmt: skip
    since = now if at.opened_at is None or counts(at)[1] else at.opened_at
    rest = max(0.0, since + least[at.kind] - now)
    return rest + sum(least[stage.kind] for stage in view.stages[view.stage + 1 :])


def summary(view: RolloutView) -> str:
    """One line, without the time."""
    parts = [f"{view.id} {state_text(view)}"]
    if (at := present(view)) is not None and not is_over(view):
        done, in_flight, failed, queued, left = counts(at)
        parts.append(
            f"{done}/{at.devices} done, {in_flight} in flight, {failed} failed, {queued} queued"
            + (f", {left} left" if left else "")
        )
    parts += [
        f"{one.text}: {one.verdict}" for one in view.criteria if one.verdict in {"violated", "open"}
    ]
    if words := waits_for(view):
        parts.append(f"waits for {words}")
    if view.why:
        parts.append(view.why)
    return cell("; ".join(parts))


def change_in(view: RolloutView) -> str:
    """Another one: there is something to say. What a stage counts down or up by itself is nothing new."""
    waiting = waits_for(view)
    return (
        summary(view).replace(cell(waiting), _NUMBER.sub("", waiting)) if waiting else summary(view)
    )


def draw(view: RolloutView, now: float, look: Look = WIDE, note: str = "") -> "Group":
    """All of it. `note`: a line of the viewer's own, at the end."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Table | Text] = [_head(view)]
    if view.stages:
        parts.append(stage_table(view, now, look))
    if view.criteria:
        parts.append(criteria_table(view.criteria, look))
        parts += [_why(one) for one in view.criteria if one.words and one.verdict != "holds"]
    if words := waits_for(view):
        parts.append(Text(cell(f"waits for {words}")))
    if (rest := earliest_end_s(view, now)) is not None:
        parts.append(Text(f"can have succeeded in {span(rest)} at the earliest", "dim"))
    if note:
        parts.append(Text(cell(note), "dim"))
    return Group(*parts)


def _head(view: RolloutView) -> "Text":
    from rich.text import Text

    head = Text(cell(title(view)), "bold")
    head.append("\n")
    head.append(state_text(view), _STATUS_STYLE[view.status])
    by = f"; made {moment(view.created_at)} by {view.created_by}"
    if view.started_at is not None:
        by = f"; started {moment(view.started_at)}, made by {view.created_by}"
    if view.ended_at is not None:
        by += f"; ended {moment(view.ended_at)}"
    head.append(cell(by), "dim")
    if view.why:
        head.append("\n" + cell(view.why))
    return head


def stage_table(view: RolloutView, now: float, look: Look = WIDE) -> "Table":
    """A bar for each stage, with its counts and how long it took or takes."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Column, Table
    from rich.text import Text

    heads = ("stage", "done", "in flight", "failed", "queued", "left", "time")
    table = Table(
        "", *(Column(head, no_wrap=True) for head in heads), box=SIMPLE_HEAD, pad_edge=False
    )
    marks = look.marks
    styles = {
        marks.done: "green", marks.in_flight: "cyan", marks.failed: "bold red",
        marks.queued: "dim", marks.left: "yellow",
    }  # fmt: skip
    for number, stage in enumerate(view.stages):
        done, *others = counts(stage)
        drawn = Text()
        for mark, run in groupby(bar(stage, look.bar, marks)):
            drawn.append("".join(run), styles[mark])
        is_present = number == view.stage and not is_over(view)
        table.add_row(
            drawn, Text(stage_text(stage), "bold" if is_present else ""),
            f"{done:,}/{stage.devices:,}", *(f"{one:,}" if one else "" for one in others),
            _time_text(stage, now),
        )  # fmt: skip
    return table


def _time_text(stage: StageView, now: float) -> str:
    if stage.opened_at is None:
        return ""
    if stage.ended_at is None:
        return f"for {span(now - stage.opened_at)}"
    return f"took {span(stage.ended_at - stage.opened_at)}"


def criteria_table(criteria: tuple[CriterionView, ...], look: Look = WIDE) -> "Table":
    """The cohort's interval against each bound, and what follows."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Column, Table
    from rich.text import Text

    heads: tuple[str, ...] = ("interval and bound", "cohort", "bound", "verdict")
    if not look.is_narrow:
        heads = ("interval and bound", "cohort", "bound", "control", "samples", "verdict")
    table = Table(
        "evidence", *(Column(head, no_wrap=True) for head in heads), box=SIMPLE_HEAD, pad_edge=False
    )
    for one in criteria:
        style = _VERDICT_STYLE[one.verdict]
        row: list[str | Text] = [
            Text(cell(one.text)), Text(gauge(one, look.gauge, look.marks), style),
            figure(one, one.cohort), figure(one, bound_of(one)),
        ]  # fmt: skip
        if not look.is_narrow:
            row[2] = interval_text(one, one.cohort, one.cohort_low, one.cohort_high)
            row.append(interval_text(one, one.control, one.control_low, one.control_high))
            of_control = f" / {one.control_samples:,}" if one.control_samples else ""
            row.append(f"{one.samples:,}{of_control}")
        table.add_row(*row, Text(one.verdict, style))
    return table


def _why(criterion: CriterionView) -> "Text":
    """What stands behind a verdict that is not good, or not yet."""
    from rich.text import Text

    name = criterion.text.split(" ", 1)[0]
    return Text(cell(f"{name}: {criterion.words}"), _VERDICT_STYLE[criterion.verdict])


def interval_text(
    criterion: CriterionView, at: float | None, low: float | None, high: float | None
) -> str:
    """As `1.2% [0.8, 1.9]`."""
    if at is None and (low is None or high is None):
        return ""
    text = figure(criterion, at)
    if low is not None and high is not None:
        text += f" [{figure(criterion, low)}, {figure(criterion, high)}]"
    return text.strip()


def figure(criterion: CriterionView, value: float | None) -> str:
    """In the criterion's unit: milliseconds, or a share."""
    if value is None:
        return ""
    found = parsed(criterion)
    unit = "" if found is None else found.measure.unit
    return f"{value:.4g} {unit}" if unit else percent(value)
