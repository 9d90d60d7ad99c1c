"""What the stretches with and without training say: figures, ratio, and whether the target holds. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cloud.capacity.load.outcomes import Phase

TARGET: Final = 1.10
"""Of the online p99 beside training to the one alone."""
REFUSED_RISE_MAX: Final = 0.001
"""Share of requests: a server that refuses what would take long keeps its p99 all the same."""


@dataclass(frozen=True, slots=True)
class Side:
    """Medians over stretches; shares over all requests."""

    p50_ms: float
    p99_ms: float
    refused_share: float
    """And failed."""
    lag_p99_ms: float
    """What the load generator itself adds."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    kept_apart_by: str
    alone: Side
    beside: Side
    ratios: tuple[float, ...]
    """Of p99, pair by pair; infinite where nobody was answered."""
    cores: float
    """That the job had while it was let."""
    cpus: int
    """That it asked for."""

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def holds(self) -> bool:
        rise = self.beside.refused_share - self.alone.refused_share
        return self.ratio <= TARGET and rise <= REFUSED_RISE_MAX


def order_of(pairs: int) -> tuple[bool, ...]:
    """Whether training runs, stretch by stretch; who begins changes with each pair."""
    return tuple(
        beside for pair in range(pairs) for beside in ((False, True), (True, False))[pair % 2]
    )


def row(
    name: str,
    kept_apart_by: str,
    order: Sequence[bool],
    phases: Sequence[Phase],
    cores: float,
    cpus: int,
) -> Row:
    """`phases`: one for each of `order`, which is made of pairs."""
    alone = [one for one, is_beside in zip(phases, order, strict=True) if not is_beside]
    beside = [one for one, is_beside in zip(phases, order, strict=True) if is_beside]
    ratios = tuple(
        b.answered_p99_ms / a.answered_p99_ms if a.answered and b.answered else float("inf")
        for a, b in zip(alone, beside, strict=True)
    )
    return Row(name, kept_apart_by, _side(alone), _side(beside), ratios, cores, cpus)


def told(found: Row) -> str:
    """In lines, the target's last."""
    lines = [
        f"{found.name}: kept apart by {found.kept_apart_by}",
        *(
            f"  {name}: p50 {side.p50_ms:.2f} ms, p99 {side.p99_ms:.2f} ms, not answered "
            f"{side.refused_share:.2%}, the generator late by {side.lag_p99_ms:.2f} ms (p99)"
            for name, side in (("alone", found.alone), ("beside training", found.beside))
        ),
        f"  training had {found.cores:.2f} cores of {found.cpus} asked for",
        f"  p99 beside / alone, pair by pair: {', '.join(f'{one:.2f}' for one in sorted(found.ratios))}",
        f"  median ratio {found.ratio:.3f}, target <= {TARGET:.2f}: "
        + ("holds" if found.holds else "missed"),
    ]
    if found.ratio <= TARGET and not found.holds:
        lines[-1] += f", since more than {REFUSED_RISE_MAX:.1%} more were not answered"
    return "\n".join(lines)


def table(rows: Sequence[Row]) -> str:
    """A line each, beneath each other."""
    width = max(len(one.name) for one in rows)
    head = f"{'':{width}}  alone p99  beside p99  ratio  not answered  cores"
    return "\n".join([head, *(
        f"{one.name:{width}}  {one.alone.p99_ms:6.2f} ms   {one.beside.p99_ms:6.2f} ms  {one.ratio:5.3f}"
        f"  {one.beside.refused_share:12.2%}  {one.cores:5.2f}  {'holds' if one.holds else 'missed'}"
        for one in rows
    )])  # fmt: skip


def _side(phases: Sequence[Phase]) -> Side:
    asked = sum(one.answered + one.refused + one.failed for one in phases)
    return Side(
        statistics.median(one.answered_p50_ms for one in phases),
        statistics.median(one.answered_p99_ms for one in phases),
        sum(one.refused + one.failed for one in phases) / asked if asked else 1.0,
        statistics.median(one.lag_p99_ms for one in phases),
    )
