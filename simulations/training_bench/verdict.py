"""What the stretches with and without training say: figures, ratio, and whether the target holds. Pure."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Final, Literal, get_args

import numpy as np

from cloud.capacity.load.outcomes import Outcomes

TARGET: Final = 1.10
"""Of the online p99 beside training to the one alone."""
REFUSED_RISE_MAX: Final = 0.001
"""Share of requests: a server that refuses what would take long keeps its p99 all the same."""
FULL: Final = 0.9
"""Share of its cores that a job at full load has: one that gets none costs nobody anything."""
BLOCKS: Final = 5
"""Of neighbouring rounds, whose ratios show how steady the whole one is."""
What = Literal["nothing", "spinning", "training"]
"""Beside the online tier in one stretch."""


@dataclass(frozen=True, slots=True)
class Side:
    """Over all requests of all its stretches together: one stretch has four above its p99."""

    p50_ms: float
    p99_ms: float
    refused_share: float
    """And failed."""
    lag_p99_ms: float
    """What the load generator itself adds."""
    requests: int


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    kept_apart_by: str
    alone: Side
    beside: Side
    """Training."""
    spinning: Side
    """Beside a loop that only spins: no job that has a core can do better."""
    blocks: tuple[float, ...]
    """The ratio of each block, training to alone."""
    cores: float
    """That the job had while it was let."""
    cpus: int
    """That it asked for and may have."""

    @property
    def ratio(self) -> float:
        return _ratio(self.alone, self.beside)

    @property
    def floor(self) -> float:
        return _ratio(self.alone, self.spinning)

    @property
    def holds(self) -> bool:
        rise = self.beside.refused_share - self.alone.refused_share
        return self.ratio <= TARGET and rise <= REFUSED_RISE_MAX and self.is_full

    @property
    def is_full(self) -> bool:
        return self.cores >= FULL * self.cpus


def order_of(rounds: int) -> tuple[What, ...]:
    """Stretch by stretch; each round has all three, in another order than the last."""
    orders = list(permutations(get_args(What)))
    return tuple(what for number in range(rounds) for what in orders[number % len(orders)])


def row(
    name: str,
    kept_apart_by: str,
    order: Sequence[What],
    stretches: Sequence[Outcomes],
    cores: float,
    cpus: int,
) -> Row:
    """`stretches`: one for each of `order`, which is made of whole rounds."""
    alone, spinning, beside = (
        [one for one, what in zip(stretches, order, strict=True) if what == wanted]
        for wanted in get_args(What)
    )
    parts = [part for part in np.array_split(np.arange(len(alone)), BLOCKS) if len(part)]
    blocks = tuple(
        _ratio(_side([alone[at] for at in part]), _side([beside[at] for at in part]))
        for part in parts
    )
    return Row(
        name, kept_apart_by, _side(alone), _side(beside), _side(spinning), blocks, cores, cpus
    )


def told(found: Row) -> str:
    """In lines, the target's last."""
    lines = [
        f"{found.name}: kept apart by {found.kept_apart_by}",
        *(
            f"  {name}: p50 {side.p50_ms:.2f} ms, p99 {side.p99_ms:.2f} ms of {side.requests:,} requests, "
            f"not answered {side.refused_share:.2%}, the generator late by {side.lag_p99_ms:.2f} ms (p99)"
            for name, side in (
                ("alone", found.alone),
                ("beside a loop that spins", found.spinning),
                ("beside training", found.beside),
            )
        ),
        f"  training had {found.cores:.2f} cores of {found.cpus}",
        f"  p99 beside / alone, block by block: {', '.join(f'{one:.2f}' for one in found.blocks)}",
        f"  their median {statistics.median(found.blocks):.2f}",
        f"  beside a loop that only spins / alone: {found.floor:.3f}, what a busy core costs on this machine",
        f"  ratio {found.ratio:.3f}, target <= {TARGET:.2f}: "
        + ("holds" if found.holds else "missed"),
    ]
    if found.ratio <= TARGET and not found.is_full:
        lines[-1] += f", since the job had less than {FULL:.0%} of its cores"
    elif found.ratio <= TARGET and not found.holds:
        lines[-1] += f", since more than {REFUSED_RISE_MAX:.1%} more were not answered"
    return "\n".join(lines)


def table(rows: Sequence[Row]) -> str:
    """A line each, beneath each other."""
    width = max(len(one.name) for one in rows)
    head = f"{'':{width}}  alone p99  beside p99  ratio  spinning  not answered  cores"
    return "\n".join([head, *(
        f"{one.name:{width}}  {one.alone.p99_ms:6.2f} ms   {one.beside.p99_ms:6.2f} ms  {one.ratio:5.3f}     {one.floor:5.3f}"
        f"  {one.beside.refused_share:12.2%}  {one.cores:5.2f}  {'holds' if one.holds else 'missed'}"
        for one in rows
    )])  # fmt: skip


def _ratio(alone: Side, beside: Side) -> float:
    """Infinite where nobody was answered."""
    return beside.p99_ms / alone.p99_ms if alone.p99_ms and beside.p99_ms else float("inf")


def _side(stretches: Sequence[Outcomes]) -> Side:
    every = Outcomes.together(stretches)
    took_ms = (every.done - every.due)[every.is_answered] * 1e3
    lag_ms, asked = (every.noticed - every.due) * 1e3, len(every.due)
    p50, p99 = (float(np.percentile(took_ms, at)) if len(took_ms) else 0.0 for at in (50, 99))
    return Side(
        p50, p99, 1 - len(took_ms) / asked if asked else 1.0,
        float(np.percentile(lag_ms, 99)) if asked else 0.0, asked,
    )  # fmt: skip
