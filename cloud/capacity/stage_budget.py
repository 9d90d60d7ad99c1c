"""Percentiles of each stage from the histograms at `/metrics`, held against the budget. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from cloud.capacity.settings import Budget
from shared.errors import Malformed

FAMILY: Final = "hybridge_stage_seconds"
STAGES: Final = ("network", "decode", "queue", "model", "encode")
"""Of a request over HTTP, in their order."""
TOTAL: Final = "total"
_EDGES_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Times:
    """A histogram. `counts[i]` observations were at most `edges_s[i]`, cumulative; the last edge
    is infinity.
    """

    edges_s: tuple[float, ...]
    counts: tuple[float, ...]
    sum_s: float

    @property
    def count(self) -> float:
        return self.counts[-1] if self.counts else 0.0

    def quantile_s(self, share: float) -> float:
        """Linear within its bucket, whose lower edge is 0 for the first; so infinity beyond the last
        finite edge. NaN of nothing. (As Prometheus' `histogram_quantile`, but for the last.)
        """
        if not self.count:
            return math.nan
        wanted = share * self.count
        below_s = below = 0.0
        for edge_s, count in zip(self.edges_s, self.counts, strict=True):
            if count >= wanted:
                inside = count - below
                return below_s + (edge_s - below_s) * ((wanted - below) / inside if inside else 0)
            below_s, below = edge_s, count
        return math.inf


def read_times(text: str) -> dict[str, Times]:
    """Each stage's histogram from Prometheus text; those of several processes are added up.

    Raises `Malformed`.
    """
    buckets: dict[str, dict[float, float]] = {}
    sums: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families(text):
            if family.name != FAMILY:
                continue
            for sample in family.samples:
                stage = sample.labels["stage"]
                if sample.name == f"{FAMILY}_bucket":
                    edges = buckets.setdefault(stage, {})
                    edge = float(sample.labels["le"])
                    edges[edge] = edges.get(edge, 0.0) + sample.value
                elif sample.name == f"{FAMILY}_sum":
                    sums[stage] = sums.get(stage, 0.0) + sample.value
    except (ValueError, KeyError, IndexError) as error:
        raise Malformed(f"/metrics is no Prometheus text that can be read: {error}") from error
    return {stage: _times(edges, sums.get(stage, 0.0)) for stage, edges in buckets.items()}


def since(before: Mapping[str, Times], after: Mapping[str, Times]) -> dict[str, Times]:
    """What was added between two readings. Raises `Malformed` when the server began anew."""
    added = {}
    for stage, now in after.items():
        then = before.get(stage)
        if then is None:
            added[stage] = now
            continue
        counts = tuple(a - b for a, b in zip(now.counts, then.counts, strict=False))
        if then.edges_s != now.edges_s or min(counts) < 0:
            raise Malformed("the server was started anew meanwhile; look again")
        added[stage] = Times(now.edges_s, counts, now.sum_s - then.sum_s)
    return added


@dataclass(frozen=True, slots=True)
class Line:
    """A stage's times in milliseconds, NaN where there were none; `share` of all stages' time."""

    stage: str
    count: int
    share: float
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    limit_ms: float | None
    is_estimate: bool = False
    """Of the total: the stages' sums, where the server has no histogram of it."""

    @property
    def is_over(self) -> bool:
        return self.limit_ms is not None and self.p99_ms > self.limit_ms


def lines(times: Mapping[str, Times], budget: Budget) -> list[Line]:
    """One for each stage of a request, and the total last."""
    all_s = sum(times[stage].sum_s for stage in STAGES if stage in times)
    found = [_line(stage, times[stage], all_s, budget) for stage in STAGES if stage in times]
    if TOTAL in times and times[TOTAL].count:
        return [*found, _line(TOTAL, times[TOTAL], times[TOTAL].sum_s, budget)]
    some = [line for line in found if line.count]
    total = Line(
        stage=TOTAL,
        count=max((line.count for line in found), default=0),
        share=1.0 if all_s else 0.0,
        mean_ms=_sum([line.mean_ms for line in some]),
        p50_ms=_sum([line.p50_ms for line in some]),
        p95_ms=_sum([line.p95_ms for line in some]),
        p99_ms=_sum([line.p99_ms for line in some]),
        limit_ms=budget.limit_ms(TOTAL),
        is_estimate=True,
    )
    return [*found, total]


def _line(stage: str, times: Times, all_s: float, budget: Budget) -> Line:
    return Line(
        stage=stage,
        count=int(times.count),
        share=times.sum_s / all_s if all_s > 0 else 0.0,
        mean_ms=times.sum_s / times.count * 1e3 if times.count else math.nan,
        p50_ms=times.quantile_s(0.5) * 1e3,
        p95_ms=times.quantile_s(0.95) * 1e3,
        p99_ms=times.quantile_s(0.99) * 1e3,
        limit_ms=budget.limit_ms(stage),
    )


def _sum(values: list[float]) -> float:
    return sum(values) if values else math.nan


def _times(edges: Mapping[float, float], sum_s: float) -> Times:
    if len(edges) > _EDGES_MAX or not edges or not math.isinf(max(edges)):
        raise Malformed(f"/metrics: {FAMILY} has no bucket +Inf, or more than {_EDGES_MAX}")
    rising = sorted(edges)
    return Times(tuple(rising), tuple(edges[edge] for edge in rising), sum_s)
