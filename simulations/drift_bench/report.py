"""The generated block of docs/drift.md, and which targets are missed. Pure."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median, quantiles
from textwrap import fill
from typing import Final, get_args

from cloud.monitoring.drift.documents import Alarm, Cause
from cloud.training.shifts import SHIFTS
from simulations.drift_bench.fleet import DEVICES, GROUPS, REPORT_S
from simulations.drift_bench.stream import Stream
from simulations.drift_bench.verdict import Outcome, Where, misleads

BEGIN: Final = "<!-- drift-bench: written by `python -m simulations.drift_bench --write` -->"
END: Final = "<!-- /drift-bench -->"
DELAY_MAX: Final = 200
"""Samples of a group that drifts as a whole until it is named, in the median, under each shift: the
issue's."""
FALSE_A_DAY_MAX: Final = 0.1
"""False alarms of a fleet of this size: one in ten days is looked at, one a day is not. Our own."""
BLAMED_SHARE_MAX: Final = 0.05
"""Of streams in which something drifts, those with an alarm about something else. Our own."""
MISLED_SHARE_MAX: Final = 0.05
"""Of alarms about what drifts, in each place, those with a wrong cause: it comes with a wrong command.
Our own."""
Results = Mapping[Stream, Outcome]
_WHERE: Final[tuple[Where, ...]] = get_args(Where)
_WHOLE: Final[tuple[Where, ...]] = ("a group", "half the fleet")
"""In which groups drift as a whole, and are to be named."""
_RIGHT_CAUSES: Final = (
    "Right is `sensor` of a camera that drifts alone, `scene` of a group and of the fleet, and `unknown` "
    "of one camera among others that drift; else `unknown` is neither right nor wrong."
)
_WIDTH: Final = 130


def replaced(text: str, results: Results) -> str:
    """Give `text` with the block between its markers written anew.

    Raises:
        ValueError: the markers are not there, once each and in order.

    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"it needs the markers {BEGIN} and {END}, once each")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{block(results)}\n\n{END}{after}"


def block(results: Results) -> str:
    """Give the Markdown for everything that is known."""
    missing = missed(results)
    parts = [
        fill(_head(results), _WIDTH),
        "\n".join(_delays(results)),
        fill(_in_time(results), _WIDTH),
        "\n".join(_causes(results)),
        fill(_RIGHT_CAUSES, _WIDTH),
        fill(_false(results), _WIDTH),
        "\n".join(["Missed:", "", *(f"- {one}" for one in missing)])
        if missing else "Every target is met.",
    ]  # fmt: skip
    return "\n\n".join(parts)


def missed(results: Results) -> list[str]:
    """What falls short, in words; empty when nothing does. What was not tried falls short, too."""
    drifting, quiet = _drifting(results), _quiet(results)
    wrong = [] if drifting else ["nothing drifted in any stream"]
    wrong += [
        f"{one.shift} in {one.where}, seed {one.seed}: never named"
        for one, found in drifting.items() if None in found.delays
    ]  # fmt: skip
    wrong += [
        f"{shift} in {where}: a group is named after {middle:.0f} samples in the median, at most {DELAY_MAX}"
        for shift in SHIFTS for where in _WHOLE
        if (middle := _median(_delays_of(drifting, shift, where))) > DELAY_MAX
    ]  # fmt: skip
    days, false = sum(one.days for one in quiet), sum(len(one.wrong) for one in quiet)
    if not days:
        wrong.append("there was no day in which nothing drifted")
    elif false > FALSE_A_DAY_MAX * days:
        wrong.append(f"{false} false alarms in {days:.0f} days, at most {FALSE_A_DAY_MAX:g} a day")
    blamed = sum(bool(found.wrong) for found in drifting.values())
    if blamed > BLAMED_SHARE_MAX * len(drifting):
        wrong.append(
            f"alarms about what does not drift in {blamed} of {len(drifting)} streams, at most "
            f"{BLAMED_SHARE_MAX:.0%}"
        )
    for where in _WHERE:
        misled, alarms = _misled(drifting, where), len(_right(drifting, where))
        if misled > MISLED_SHARE_MAX * alarms:
            wrong.append(
                f"{where}: a wrong cause in {misled} of {alarms} alarms, at most {MISLED_SHARE_MAX:.0%}"
            )
    return wrong


def _head(results: Results) -> str:
    seeds = [one.seed for one in results]
    return (
        f"{len(results)} streams, seeds {min(seeds)} to {max(seeds)}, {GROUPS} sites of {DEVICES} "
        "cameras each. Samples of the scope from the first that drifted until the alarm that names "
        "it, median / 90th percentile:"
    )


def _delays(results: Results) -> Iterator[str]:
    yield from _heading("shift")
    for shift in SHIFTS:
        cells = [_cell(_delays_of(_drifting(results), shift, where)) for where in _WHERE]
        yield f"| {shift} | " + " | ".join(cells) + " |"


def _cell(delays: Sequence[int | None]) -> str:
    known = sorted(one for one in delays if one is not None)
    if not known:
        return "never" if delays else "-"
    ninth = quantiles(known, n=10, method="inclusive")[8] if len(known) > 1 else known[0]
    never = f", {len(delays) - len(known)} of {len(delays)} never" if None in delays else ""
    return f"{median(known):.0f} / {ninth:.0f}{never}"


def _in_time(results: Results) -> str:
    delays = [
        one for shift in SHIFTS for where in _WHOLE
        for one in _delays_of(_drifting(results), shift, where)
    ]  # fmt: skip
    soon = sum(one is not None and one <= DELAY_MAX for one in delays)
    return (
        f"Of {len(delays)} groups that drifted as a whole, alone or with half of the fleet, {soon} were named "
        f"within {DELAY_MAX} samples."
    )


def _causes(results: Results) -> Iterator[str]:
    yield from _heading("alarms that say")
    drifting = _drifting(results)
    for cause in Cause:
        counts = [
            sum(alarm.cause is cause for alarm in _right(drifting, where)) for where in _WHERE
        ]
        yield f"| `{cause.value}` | " + " | ".join(map(str, counts)) + " |"
    misled = [f"{_misled(drifting, where)} of {len(_right(drifting, where))}" for where in _WHERE]
    yield "| a wrong one | " + " | ".join(misled) + " |"


def _false(results: Results) -> str:
    quiet, drifting = _quiet(results), _drifting(results)
    days, false = sum(one.days for one in quiet), [one for found in quiet for one in found.wrong]
    blamed = [one for found in drifting.values() for one in found.wrong]
    streams = sum(bool(one.wrong) for one in drifting.values())
    return (
        f"False alarms where nothing drifts: {len(false)}{_kinds(false)} in {days:.0f} days of "
        f"{GROUPS * DEVICES} cameras that report each {REPORT_S:.0f} s. Alarms about what does not drift, "
        f"while something else does: {len(blamed)}{_kinds(blamed)}, in {streams} of {len(drifting)} streams."
    )


def _kinds(alarms: Iterable[Alarm]) -> str:
    """Which they are, the most frequent first."""
    counts = Counter(f"{one.kind.value} of a {one.scope.kind}" for one in alarms)
    if not counts:
        return ""
    return " (" + ", ".join(f"{count} {what}" for what, count in counts.most_common()) + ")"


def _heading(first: str) -> Iterator[str]:
    yield f"| {first} | " + " | ".join(_WHERE) + " |"
    yield "|---|" + "---|" * len(_WHERE)


def _drifting(results: Results) -> Results:
    return {one: found for one, found in results.items() if one.shift is not None}


def _quiet(results: Results) -> list[Outcome]:
    return [found for one, found in results.items() if one.shift is None]


def _delays_of(drifting: Results, shift: str, where: Where) -> list[int | None]:
    return [
        delay for one, found in drifting.items() if (one.shift, one.where) == (shift, where)
        for delay in found.delays
    ]  # fmt: skip


def _median(delays: Sequence[int | None]) -> float:
    """What was never named took for ever; of nothing 0."""
    return median(math.inf if one is None else one for one in delays) if delays else 0.0


def _right(drifting: Results, where: Where) -> list[Alarm]:
    return [alarm for one, found in drifting.items() if one.where == where for alarm in found.right]


def _misled(drifting: Results, where: Where) -> int:
    return sum(misleads(where, alarm) for alarm in _right(drifting, where))
