"""A bar of devices and a gauge of evidence, as characters with a meaning each. Pure."""

import math
from dataclasses import dataclass
from typing import Final

from cloud.rollouts.criteria import Criterion, parse
from cloud.rollouts.documents import CriterionView, StageView
from shared.errors import Malformed


@dataclass(frozen=True, slots=True)
class Marks:
    """What a cell of a bar or a gauge is drawn with."""

    done: str = "█"
    in_flight: str = "▒"
    failed: str = "✗"
    left: str = "-"
    queued: str = "·"
    low: str = "├"
    high: str = "┤"
    inside: str = "─"
    point: str = "●"
    bound: str = "┃"
    outside: str = "·"


BLOCKS: Final = Marks()
PLAIN: Final = Marks("#", ">", "x", "-", ".", "(", ")", "-", "o", "|", ".")
"""Where a terminal has no other characters."""


def counts(stage: StageView) -> tuple[int, int, int, int, int]:
    """Devices done, in flight, failed, queued and left, which add up to the stage's."""
    known = stage.done + stage.in_flight + stage.failed + stage.left
    return stage.done, stage.in_flight, stage.failed, max(0, stage.devices - known), stage.left


def bar(stage: StageView, width: int, marks: Marks = BLOCKS) -> str:
    """`width` cells in proportion to the devices; one failed device of thousands has a cell, too."""
    drawn = (marks.done, marks.in_flight, marks.failed, marks.queued, marks.left)
    cells = shared_out(counts(stage), width)
    if not any(cells):
        return marks.queued * width
    return "".join(mark * cell for mark, cell in zip(drawn, cells, strict=True))


def shared_out(parts: tuple[int, ...], width: int) -> tuple[int, ...]:
    """So many cells for each part: in proportion, at least one for what is there, `width` in all.

    By largest remainders; what the small ones need is taken from the largest.
    """
    total = sum(parts)
    if total == 0 or width < sum(part > 0 for part in parts):
        return (0,) * len(parts)
    exact = [part * width / total for part in parts]
    cells = [max(math.floor(one), 1 if part else 0) for one, part in zip(exact, parts, strict=True)]
    by_remainder = sorted(range(len(parts)), key=lambda i: (math.floor(exact[i]) - exact[i], i))
    for i in by_remainder[: max(0, width - sum(cells))]:
        cells[i] += 1
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    return tuple(cells)


def parsed(criterion: CriterionView) -> Criterion | None:
    """None: a newer fleet's, which this program cannot read."""
    try:
        return parse(criterion.text)
    except Malformed:
        return None


def bound_of(criterion: CriterionView) -> float | None:
    """The number that the cohort is held against now; None where control has none yet."""
    found = parsed(criterion)
    return None if found is None else found.bound(criterion.control)


def gauge(criterion: CriterionView, width: int, marks: Marks = BLOCKS) -> str:
    """The cohort's interval against the bound, on a scale from 0 (or below) to what is seen.

    `·├──●──┤···┃··`: wholly on the good side of the bound is sure, across it is still open.
    Blank where there is no interval.
    """
    bound = bound_of(criterion)
    low, high = criterion.cohort_low, criterion.cohort_high
    if low is None or high is None:
        low = high = criterion.cohort
    seen = [x for x in (low, high, criterion.cohort, bound) if x is not None and math.isfinite(x)]
    if low is None or high is None or not seen:
        return " " * width
    least, most = min(0.0, *seen), max(0.0, *seen)
    room = (most - least) * 0.1 or 1e-9
    least, most = least - (room if least < 0 else 0), most + room

    def cell(value: float) -> int:
        share = (min(max(value, least), most) - least) / (most - least)
        return min(width - 1, int(share * width))

    cells = [marks.outside] * width
    first, last = cell(low), cell(high)
    for i in range(first, last + 1):
        cells[i] = marks.inside
    cells[first], cells[last] = marks.low, marks.high
    if criterion.cohort is not None:
        cells[cell(criterion.cohort)] = marks.point
    if bound is not None:
        cells[cell(bound)] = marks.bound
    return "".join(cells)
