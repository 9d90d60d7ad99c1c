"""Rows of the table: medians, and ratios taken pair by pair. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from simulations.benchmarks.report import medians
from simulations.broker_bench.cells import Cell
from simulations.broker_bench.loads import Found


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a run; the ratio of embedded to Mosquitto is to be at least or at most."""

    name: str
    unit: str
    value: Callable[[Found], float]
    rule: Literal[">=", "<="]
    target: float = 1.0


def _spread(found: Found) -> float:
    """How evenly a share group gets its messages: the least share over the even one, percent."""
    return 100 * min(found.by_consumer) * len(found.by_consumer) / max(1, sum(found.by_consumer))


METRICS = {
    "rate": Metric("delivered", "msg/s", lambda found: found.per_second, ">="),
    "cpu": Metric("broker CPU", "us/msg", lambda found: found.broker_cpu_us, "<="),
    "p50": Metric("p50", "ms", lambda found: found.p50_ms, "<="),
    "p99": Metric("p99", "ms", lambda found: found.p99_ms, "<="),
    "spread": Metric("least share of even", "%", _spread, ">="),
    "peak": Metric("peak memory", "MiB", lambda found: found.peak_mb, "<=", 2.0),
    "seconds": Metric("took", "s", lambda found: found.seconds, "<="),
    "answered": Metric("answered a ping", "", lambda found: found.answered, ">="),
    "per_connection": Metric("per connection", "KiB", lambda found: found.kb_per_connection, "<="),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line; `rule` None: for information. `note` says what was refused or lost."""

    what: str
    embedded: float
    mosquitto: float
    unit: str
    ratio: float
    rule: Literal[">=", "<="] | None
    target: float
    note: str
    is_whole: bool
    """Nothing that the embedded broker acknowledged was lost."""

    @property
    def met(self) -> bool:
        """Whether the issue's target is met; a row for information always is, if it is whole."""
        if self.rule is None or not self.is_whole:
            return self.is_whole
        return self.ratio >= self.target if self.rule == ">=" else self.ratio <= self.target


def rows(cell: Cell, pairs: Sequence[tuple[Found, Found]]) -> list[Row]:
    """Give the rows of a cell from its rounds."""
    found: list[Row] = []
    note = _note(pairs)
    is_whole = not any(embedded.lost for embedded, _ in pairs)
    for named in cell.metrics:
        metric = METRICS[named.rstrip("?")]
        embedded, mosquitto, ratio = medians(
            [(metric.value(ours), metric.value(theirs) or 1e-9) for ours, theirs in pairs]
        )
        rule = None if named.endswith("?") else metric.rule
        found.append(
            Row(
                f"{cell.what}: {metric.name}", embedded, mosquitto, metric.unit, ratio, rule,
                metric.target, note, is_whole,
            )
        )  # fmt: skip
        note = ""
    return found


def _note(pairs: Sequence[tuple[Found, Found]]) -> str:
    """Count over all rounds what did not arrive."""
    words: list[str] = []
    for name, runs in zip(("embedded", "mosquitto"), zip(*pairs, strict=True), strict=True):
        refused, lost = sum(run.refused for run in runs), sum(run.lost for run in runs)
        if refused or lost:
            words.append(f"{name}: {refused:,} refused, {lost:,} lost")
    return "; ".join(words)
