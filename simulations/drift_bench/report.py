"""The generated block of docs/drift.md. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median, quantiles
from typing import Final, get_args

from cloud.training.shifts import SHIFTS
from simulations.drift_bench.stream import DEVICES, GROUPS, Outcome, Stream, Where

BEGIN: Final = "<!-- drift-bench: written by `python -m simulations.drift_bench --write` -->"
END: Final = "<!-- /drift-bench -->"
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


def misses(results: Results) -> int:
    """Streams whose drift was never named."""
    return sum(one.shift is not None and found.delay is None for one, found in results.items())


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
        f"cameras ({len(wrong) / max(days, 1e-9):.2f} a stream-day), with classes in each site's own "
        "proportion, others by night than by day, and light that changes by 5 %."
    )
    blamed = [one for found in drifting.values() for one in found.wrong]
    yield (
        f"Alarms about a scope of which most does not drift, while something else does: {len(blamed)} "
        f"in {len(drifting)} streams."
    )
