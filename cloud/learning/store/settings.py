"""What is kept of loops."""

from shared.config import Count, Section


class LoopsKept(Section):
    """Bounds of the tables."""

    loops_max: Count = 64
    """Models with a loop. Default: a region has a handful."""
    cycles_max: Count = 200
    """Of one model that are over; the oldest go first. Default: a year of one every two days."""
    lines_max: Count = 500
    """Of one cycle's log; the oldest go first."""
