"""When a batch leaves, and who may wait: one model's, as plain numbers."""

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class BatchRules:
    """Raises ValueError for rules that contradict each other."""

    size_max: int = 32
    """Rows in a batch."""
    preferred: tuple[int, ...] = ()
    """Ascending sizes: a batch closes at the one of most rows a second by the curve, and these are
    what is waited for. Empty: it closes at `size_max`."""
    p99_s: float | None = None
    """Target for an interactive job's time in here, in seconds; what would take longer is refused,
    but never what finds nobody ahead of it. None: deadlines are all that counts."""
    wait_s_max: float = 0.0
    """How long an idle model may wait for company, where that pays (`company.py`). 0: never."""
    depth_max: int = 1024
    """Rows of one priority that may wait: a flood of bulk takes no place of an interactive job."""
    queue_s_max: tuple[float, float, float] = (inf, inf, inf)
    """Longest wait in seconds by priority, interactive first."""
    bulk_share: float = 0.1
    """Share of `p99_s` by which near-line and bulk together may delay an interactive job; without a
    target they may by a full batch's seconds."""

    def __post_init__(self) -> None:
        if not 0 < self.size_max <= self.depth_max:
            raise ValueError(f"size_max {self.size_max} must lie in 1..depth_max {self.depth_max}")
        ascending = sorted(set(self.preferred))
        if list(self.preferred) != ascending or any(not 0 < p <= self.size_max for p in ascending):
            raise ValueError(f"preferred {self.preferred}: ascending, each in 1..{self.size_max}")
        if self.p99_s is not None and not 0 < self.p99_s < inf:
            raise ValueError(f"p99_s {self.p99_s} must be above 0")
        if not 0 <= self.wait_s_max < inf:
            raise ValueError(f"wait_s_max {self.wait_s_max} must be 0 or more")
        if not 0 < self.bulk_share <= 1:
            raise ValueError(f"bulk_share {self.bulk_share} must lie above 0 and not above 1")
        if not min(self.queue_s_max) > 0:
            raise ValueError(f"queue_s_max {self.queue_s_max}: each must be above 0")
