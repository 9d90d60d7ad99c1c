"""A loop and its cycle as a person sees them: the arrows in order, what each waits for, the command
that gives it. Pure.
"""

from typing import TYPE_CHECKING, Final

from cloud.cli.output import cell, moment
from cloud.cli.rollout_words import span
from cloud.learning.documents import ENDS, Arrow, Cycle, Finding, Loop, Phase

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

ARROWS: Final = tuple(Arrow)
_AT: Final = {
    Phase.COLLECTING: Arrow.DATA_SET, Phase.DATA_SET: Arrow.DATA_SET, Phase.TRAINING: Arrow.TRAIN,
    Phase.EVALUATING: Arrow.EVALUATE, Phase.APPROVING: Arrow.APPROVE,
    Phase.RELEASING: Arrow.RELEASE, Phase.ROLLING_OUT: Arrow.ROLLOUT, Phase.WATCHING: Arrow.WATCH,
}  # fmt: skip
_STYLE: Final = {
    "done": "green", "now": "bold cyan", "asks you": "bold yellow", "ended here": "bold red",
    "asks first": "dim", "": "dim",
}  # fmt: skip
_PHASE_STYLE: Final = {
    Phase.DONE: "green", Phase.REFUSED: "red", Phase.FAILED: "red", Phase.STOPPED: "yellow",
}  # fmt: skip


def is_over(cycle: Cycle) -> bool:
    return cycle.phase in ENDS


def arrow_of(cycle: Cycle) -> Arrow | None:
    """Where it stands; of one that ended, how far what it made shows that it came; None: before or
    after all of them.
    """
    if cycle.asks is not None:
        return cycle.asks
    if cycle.phase in _AT:
        return _AT[cycle.phase]
    if cycle.phase not in ENDS or cycle.phase is Phase.DONE:
        return None
    if cycle.rollout is not None:
        return Arrow.ROLLOUT
    if cycle.version is not None:
        return Arrow.EVALUATE
    return Arrow.DATA_SET if cycle.data_set is None else Arrow.TRAIN


def states(cycle: Cycle, asks: frozenset[Arrow]) -> list[tuple[Arrow, str]]:
    """Each arrow with `done`, `now`, `asks you`, `ended here`, `asks first`, or nothing."""
    at = arrow_of(cycle)
    found = []
    has_passed = at is not None or cycle.phase is Phase.DONE
    for arrow in ARROWS:
        if arrow is at:
            has_passed = False
            here = "asks you" if cycle.asks is arrow else "now"
            found.append((arrow, "ended here" if is_over(cycle) else here))
        elif has_passed:
            found.append((arrow, "done"))
        else:
            found.append((arrow, "asks first" if arrow in asks and not is_over(cycle) else ""))
    return found


def phase_text(cycle: Cycle) -> str:
    return str(cycle.phase).replace("_", " ")


def made_text(cycle: Cycle, arrow: Arrow) -> str:
    """What that step has made."""
    match arrow:
        case Arrow.DATA_SET:
            return "" if cycle.data_set is None else cycle.data_set[:16]
        case Arrow.TRAIN:
            return cycle.job or ""
        case Arrow.EVALUATE:
            return "" if cycle.version is None else f"{cycle.model} {cycle.version}"
        case Arrow.ROLLOUT:
            return cycle.rollout or ""
        case Arrow.APPROVE | Arrow.RELEASE | Arrow.WATCH:
            return ""


def waits_for(cycle: Cycle) -> str:
    """In words, with the command that gives it; empty: for nothing."""
    if is_over(cycle):
        return ""
    if cycle.asks is not None:
        step = str(cycle.asks).replace("_", " ")
        return f"a person, before {step}: hybridge loop go {cycle.model} -m WHY"
    return cycle.waits_for


def follow_up(cycle: Cycle) -> str:
    """The command that shows what it is at; empty: there is none."""
    match cycle.phase:
        case Phase.TRAINING if cycle.job is not None:
            return f"hybridge train logs {cycle.job} -f"
        case Phase.EVALUATING | Phase.APPROVING | Phase.RELEASING if cycle.version is not None:
            return f"hybridge model checklist {cycle.model} {cycle.version}"
        case Phase.ROLLING_OUT if cycle.rollout is not None:
            return f"hybridge rollout status {cycle.rollout} -w"
        case Phase.WATCHING:
            return "hybridge drift alarms"
        case _:
            return ""


def summary(cycle: Cycle) -> str:
    """One line, without the time."""
    parts = [f"{cycle.id} {phase_text(cycle)}"]
    parts += [f"{made_text(cycle, arrow)}" for arrow in ARROWS if made_text(cycle, arrow)]
    if words := waits_for(cycle):
        parts.append(f"waits for {words}")
    parts += [f"{one.name}: {one.words}" for one in cycle.findings if not one.holds]
    if cycle.why:
        parts.append(cycle.why)
    return cell("; ".join(parts))


def draw(
    cycle: Cycle, asks: frozenset[Arrow], now: float, note: str = "", marks: str = "✓▶?✗·"
) -> "Group":
    """All of a cycle. `note`: a line of the viewer's own, at the end."""
    from rich.console import Group
    from rich.text import Text

    parts: list[Table | Text] = [_head(cycle, now), _arrows(cycle, asks, marks)]
    if cycle.findings:
        parts.append(_findings(cycle.findings, marks))
    if words := waits_for(cycle):
        parts.append(Text(cell(f"waits for {words}")))
    if command := follow_up(cycle):
        parts.append(Text(cell(f"look: {command}"), "dim"))
    if not is_over(cycle):
        parts.append(Text(cell(f"stop it: hybridge loop stop {cycle.model} -m WHY"), "dim"))
    if note:
        parts.append(Text(cell(note), "dim"))
    return Group(*parts)


def marks_for(encoding: str) -> str:
    """Done, now, asks, ended, to come: as characters that are encoded so."""
    return "✓▶?✗·" if encoding.lower().startswith("utf") else "+>?x."


def loop_line(loop: Loop) -> str:
    """What it does now."""
    if loop.unreadable is not None:
        return f"{loop.unreadable} cannot be read"
    if loop.cycle is not None:
        return phase_text(loop.cycle)
    return "waits for a trigger" if loop.settings.enabled else "off"


def triggers_text(loop: Loop) -> str:
    triggers = loop.settings.triggers
    found = []
    if triggers.samples is not None:
        found.append(f"{triggers.samples:,} new samples")
    if triggers.drift:
        found.append("drift")
    if triggers.accuracy_below is not None:
        found.append(f"accuracy under {triggers.accuracy_below:g}")
    if triggers.every_s is not None:
        found.append(f"every {span(triggers.every_s)}")
    return ", ".join(found) or "a person only"


def _head(cycle: Cycle, now: float) -> "Text":
    from rich.text import Text

    head = Text(cell(f"{cycle.model}: {cycle.id}, by {cycle.trigger}"), "bold")
    if cycle.trigger_words:
        head.append("\n" + cell(cycle.trigger_words), "dim")
    head.append("\n")
    head.append(phase_text(cycle), _PHASE_STYLE.get(cycle.phase, "cyan"))
    if cycle.ended_at is not None:
        head.append(f"; ended {moment(cycle.ended_at)}", "dim")
    else:
        head.append(f" for {span(now - cycle.since)}; begun {moment(cycle.begun_at)}", "dim")
    if cycle.why:
        head.append("\n" + cell(cycle.why))
    return head


def _arrows(cycle: Cycle, asks: frozenset[Arrow], marks: str) -> "Table":
    from rich.table import Table
    from rich.text import Text

    mark = dict(zip(("done", "now", "asks you", "ended here"), marks, strict=False))
    table = Table.grid(padding=(0, 2))
    for arrow, state in states(cycle, asks):
        style = _STYLE[state]
        table.add_row(
            Text(mark.get(state, marks[-1]), style), Text(str(arrow).replace("_", " "), style),
            Text(state, style), Text(cell(made_text(cycle, arrow))),
        )  # fmt: skip
    return table


def _findings(findings: tuple[Finding, ...], marks: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table("gate", "", "value", "bound", "", box=SIMPLE_HEAD, pad_edge=False)
    for one in findings:
        style = "green" if one.holds else "bold red"
        table.add_row(
            Text(cell(one.name)), Text(marks[0] if one.holds else marks[3], style),
            cell(one.value), cell(one.bound), Text(cell(one.words)),
        )  # fmt: skip
    return table
