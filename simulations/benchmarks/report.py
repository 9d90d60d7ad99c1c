"""One row of the table, and how two things are compared on a noisy machine."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

ROUNDS = 7


@dataclass(frozen=True, slots=True)
class Row:
    """`value` against `floor` in `unit`; `ratio` must be at least or at most `target`."""

    what: str
    value: float
    floor_name: str
    floor: float | None
    unit: str
    ratio: float
    rule: Literal[">=", "<="]
    target: float

    @property
    def met(self) -> bool:
        return self.ratio >= self.target if self.rule == ">=" else self.ratio <= self.target


def medians(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Of ours, of the floor, and of the ratio pair by pair; each pair was run back to back."""
    return (
        statistics.median(ours for ours, _ in pairs),
        statistics.median(floor for _, floor in pairs),
        statistics.median(ours / floor for ours, floor in pairs),
    )
