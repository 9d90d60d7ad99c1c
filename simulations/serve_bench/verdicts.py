"""The targets, and whether they are met. Pure."""

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from simulations.serve_bench.results import Cell, Cells, Mixed, Overload, Results

OURS: Final = "ours"
FASTER_THAN: Final = {
    "mosec": 1.2, "mlserver": 10.0, "litserve": 10.0, "bentoml": 10.0, "ray": 10.0,
}  # fmt: skip
"""Requests/s over theirs, at `BUSY`."""
BUSY: Final = (64, 256)
CALM: Final = (1, 8)
"""Concurrencies at which our p50 is to be below Triton's."""
OVERLOAD_P99_RATIO_MAX: Final = 1.5
REFUSED_MS_MAX: Final = 10.0
RECOVERED_S_MAX: Final = 2.0
GROWTH_MB_PER_MINUTE_MAX: Final = 2.0
"""Flat: what a line through half a minute of samples may rise by; an allocator's arenas wander."""
MIXED_P99_RATIO_MAX: Final = 1.1
BATCH_SHARE_MIN: Final = 0.1
"""A batch that stands still costs nobody anything and proves nothing."""

Rule = Literal[">=", "<="]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`value` against `reference` in `unit`; `ratio` is what the target is about."""

    what: str
    value: float
    reference: float
    unit: str
    ratio: float
    rule: Rule
    target: float

    @property
    def met(self) -> bool:
        return self.ratio >= self.target if self.rule == ">=" else self.ratio <= self.target


def verdicts(results: Results) -> list[Verdict]:
    """Give one for each target that could be measured."""
    found: list[Verdict] = []
    if results.cells is not None:
        found += of_cells(results.cells)
    if results.overload is not None:
        found += of_overload(results.overload)
    if results.mixed is not None:
        found += of_mixed(results.mixed)
    return found


def missing(results: Results) -> list[str]:
    """Say what no verdict could be given for, though its part was measured or asked for."""
    found = [f"{part}: {why}" for part, why in results.failed.items()]
    if results.cells is not None and OURS in results.cells.absent:
        found.append(f"cells: ours: {results.cells.absent[OURS]}")
    return found


def of_cells(cells: Cells) -> Iterator[Verdict]:
    """Give the verdicts of the closed loop, for the servers that were measured."""
    for name in (s.name for s in cells.subjects if _family(s.name) in FASTER_THAN):
        target = FASTER_THAN[_family(name)]
        for concurrency in BUSY:
            pair = _pair(cells, name, concurrency)
            if pair is not None:
                what = f"requests/s at {concurrency} over {_title(cells, name)}"
                yield _compared(what, *pair, "per_second", "/s", ">=", target)
    for name in (s.name for s in cells.subjects if _family(s.name) == "triton"):
        for concurrency in CALM:
            pair = _pair(cells, name, concurrency)
            if pair is not None:
                what = f"p50 at {concurrency} over {_title(cells, name)}"
                yield _compared(what, *pair, "p50_ms", "ms", "<=", 1.0)
    peers = [s.name for s in cells.subjects if not s.is_ours and not s.is_floor]
    for concurrency in cells.concurrencies:
        pairs = [
            pair for name in peers
            if (pair := _pair(cells, name, concurrency)) is not None and _answers(pair[1])
        ]  # fmt: skip
        if pairs:
            ours, best = min(pairs, key=lambda pair: pair[1].median("p99_ms"))
            what = f"p99 at {concurrency} over the best peer's ({_title(cells, best.subject)})"
            yield _compared(what, ours, best, "p99_ms", "ms", "<=", 1.0)


def of_overload(found: Overload) -> Iterator[Verdict]:
    """Give the verdicts of the open loop."""
    base, over = found.at_80, found.at_200
    yield _limit(
        "overload: accepted requests' p99 over that at 80%", over.answered_p99_ms,
        base.answered_p99_ms, "ms", OVERLOAD_P99_RATIO_MAX,
    )  # fmt: skip
    yield _limit("overload: refusals' p99", over.refused_p99_ms, REFUSED_MS_MAX, "ms")
    yield _limit(
        "overload: neither answered nor refused", over.failed, max(1.0, over.refused), "requests",
        0.0,
    )  # fmt: skip
    yield _limit("overload: recovered after", found.recovered_s, RECOVERED_S_MAX, "s")
    yield _limit(
        "overload: memory grows by", found.growth_mb_per_minute, GROWTH_MB_PER_MINUTE_MAX,
        "MiB/min",
    )  # fmt: skip


def of_mixed(found: Mixed) -> Iterator[Verdict]:
    """Give the verdicts of the batch beside online traffic."""
    pairs = [
        (beside.answered_p99_ms, alone.answered_p99_ms)
        for beside, alone in zip(found.beside, found.alone, strict=True)
    ]
    yield Verdict(
        "mixed load: online p99 beside a batch over alone",
        statistics.median(beside for beside, _ in pairs),
        statistics.median(alone for _, alone in pairs), "ms",
        statistics.median(beside / alone for beside, alone in pairs), "<=", MIXED_P99_RATIO_MAX,
    )  # fmt: skip
    yield Verdict(
        "mixed load: samples of the batch over online requests", found.batch_per_second,
        found.online_per_second, "/s", _ratio(found.batch_per_second, found.online_per_second),
        ">=", BATCH_SHARE_MIN,
    )  # fmt: skip


def _limit(what: str, value: float, reference: float, unit: str, ratio_max: float = 1.0) -> Verdict:
    return Verdict(what, value, reference, unit, _ratio(value, reference), "<=", ratio_max)


def _compared(
    what: str, ours: Cell, theirs: Cell, field: str, unit: str, rule: Rule, target: float
) -> Verdict:
    """Ratios round by round where rounds alternated, so that a noisy minute hits both."""
    value, reference = ours.median(field), theirs.median(field)
    if len(ours.runs) == len(theirs.runs):
        ratio = statistics.median(
            _ratio(getattr(a, field), getattr(b, field))
            for a, b in zip(ours.runs, theirs.runs, strict=True)
        )
    else:
        ratio = _ratio(value, reference)
    return Verdict(what, value, reference, unit, ratio, rule, target)


def _family(name: str) -> str:
    """The server of a setting: `mosec-1` is Mosec."""
    return name.partition("-")[0]


def _ratio(value: float, reference: float) -> float:
    return value / reference if reference else math.inf


def _answers(cell: Cell) -> bool:
    """A server that did not answer once has no p99."""
    return cell.median("per_second") > 0


def _pair(cells: Cells, name: str, concurrency: int) -> tuple[Cell, Cell] | None:
    ours, theirs = cells.cell(OURS, concurrency), cells.cell(name, concurrency)
    return None if ours is None or theirs is None else (ours, theirs)


def _title(cells: Cells, name: str) -> str:
    return next(s.title for s in cells.subjects if s.name == name)
