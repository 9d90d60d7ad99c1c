"""The generated block of docs/drift.md. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median, quantiles
from typing import Final, get_args

from cloud.training.shifts import SHIFTS
from simulations.drift_bench.stream import DEVICES, GROUPS, REPORT_S, Outcome, Stream, Where

BEGIN: Final = "<!-- drift-bench: written by `python -m simulations.drift_bench --write` -->"
END: Final = "<!-- /drift-bench -->"
FALSE_A_DAY_MAX: Final = 0.1
"""False alarms of a fleet of this size: one in ten days is looked at, one a day is not."""
BLAMED_SHARE_MAX: Final = 0.05
Results = Mapping[Stream, Outcome]


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
    drifting = {one: found for one, found in results.items() if one.shift is not None}
    quiet = [found for one, found in results.items() if one.shift is None]
    return "\n".join([*_head(results), "", *_delays(drifting), "", *_false_ones(drifting, quiet)])


def missed(results: Results) -> list[str]:
    """What falls short, in words; empty when nothing does."""
    wrong = [
        f"{one.shift} in {one.where}, seed {one.seed}: never named"
        for one, found in results.items()
        if one.shift is not None and found.delay is None
    ]
    days = sum(found.days for found in results.values())
    false = sum(len(found.wrong) for one, found in results.items() if one.shift is None)
    if false > FALSE_A_DAY_MAX * days:
        wrong.append(f"{false} false alarms in {days:.0f} days, at most {FALSE_A_DAY_MAX:g} a day")
    drifting = [found for one, found in results.items() if one.shift is not None]
    blamed = sum(bool(found.wrong) for found in drifting)
    if blamed > BLAMED_SHARE_MAX * len(drifting):
        wrong.append(
            f"alarms about the wrong scope in {blamed} of {len(drifting)} streams, at most "
            f"{BLAMED_SHARE_MAX:.0%}"
        )
    return wrong


def _head(results: Results) -> Iterator[str]:
    yield (
        f"{len(results)} streams, {GROUPS} sites of {DEVICES} cameras each. Samples of the scope from "
        "the first that drifted until the alarm that names it, median / 90th percentile:"
    )


def _delays(drifting: Results) -> Iterator[str]:
    places: tuple[Where, ...] = get_args(Where)
    yield "| shift | " + " | ".join(places) + " |"
    yield "|---|" + "---|" * len(places)
    for shift in SHIFTS:
        cells = [
            _cell([found.delay for one, found in drifting.items()
                   if (one.shift, one.where) == (shift, where)])
            for where in places
        ]  # fmt: skip
        yield f"| {shift} | " + " | ".join(cells) + " |"


def _cell(delays: Sequence[int | None]) -> str:
    known = sorted(one for one in delays if one is not None)
    if not known:
        return "never" if delays else "-"
    ninth = quantiles(known, n=10, method="inclusive")[8] if len(known) > 1 else known[0]
    missed = (
        f", {len(delays) - len(known)} of {len(delays)} never" if len(known) < len(delays) else ""
    )
    return f"{median(known):.0f} / {ninth:.0f}{missed}"


def _false_ones(drifting: Results, quiet: Sequence[Outcome]) -> Iterator[str]:
    days, wrong = sum(one.days for one in quiet), [one for found in quiet for one in found.wrong]
    yield (
        f"False alarms where nothing drifts: {len(wrong)} in {days:.0f} days of {GROUPS * DEVICES} "
        f"cameras that report each {REPORT_S:.0f} s, with a look each time ({len(wrong) / max(days, 1e-9):.2f} a stream-day), with classes in each site's own "
        "proportion, others by night than by day, and light that changes by 5 %."
    )
    blamed = [one for found in drifting.values() for one in found.wrong]
    yield (
        f"Alarms about a scope of which most does not drift, while something else does: {len(blamed)} "
        f"in {len(drifting)} streams."
    )
