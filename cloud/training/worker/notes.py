"""What a job said since the last beat, bounded: a database that is away costs lines, not memory. Pure."""

from dataclasses import dataclass, field
from typing import Final

from cloud.training.documents import LogLine, Point, Run

_POINTS_MAX: Final = 20_000
_LINES_MAX: Final = 2_000
_METRICS_MAX: Final = 256
"""Of one attempt: each has points and a figure of its own, and all figures are one document."""
_LINE_MAX: Final = LogLine.model_fields["text"].metadata[0].max_length


@dataclass(slots=True)
class Notes:
    run: Run | None = None
    """Where it began since."""
    points: list[Point] = field(default_factory=list)
    lines: list[tuple[float, str]] = field(default_factory=list)
    """Unix seconds, text."""
    figures: dict[str, float] = field(default_factory=dict)
    dropped: int = 0
    dropped_at: float = 0.0
    """When the first of these was; Unix seconds."""
    is_told: bool = False
    """That something was dropped, in the last line."""
    metrics: set[str] = field(default_factory=set)
    """Those that there are points of, from the first beat on."""

    def measured(self, step: int, values: dict[str, float], at: float) -> None:
        for metric, value in sorted(values.items()):
            if metric not in self.metrics:
                if len(self.metrics) >= _METRICS_MAX:
                    self._drop(1, at)
                    continue
                self.metrics.add(metric)
            self.figures[metric] = value
            if len(self.points) < _POINTS_MAX:
                self.points.append(Point(metric=metric, step=step, value=value, at=at))
            else:
                self._drop(1, at)

    def said(self, text: str, at: float) -> None:
        if len(self.lines) < _LINES_MAX:
            self.lines.append((at, text[:_LINE_MAX]))
        else:
            self._drop(1, at)

    def taken(self) -> "Notes":
        """All of it; this one is empty then. That something was dropped is said once an attempt."""
        taken = Notes(
            self.run, self.points, self.lines, self.figures, self.dropped, self.dropped_at
        )  # fmt: skip
        if self.dropped and not self.is_told:
            words = "points and lines more, of which nothing is kept; others may follow, unsaid"
            taken.lines.append((self.dropped_at, f"({self.dropped} {words})"))
            taken.is_told = self.is_told = True
        self.run, self.points, self.lines, self.figures, self.dropped = None, [], [], {}, 0
        return taken

    def put_back(self, taken: "Notes") -> None:
        """It was not stored: before what came since, within the bounds."""
        self.run = self.run or taken.run
        before = taken.lines[:-1] if taken.is_told else taken.lines
        if taken.is_told:
            self.is_told = False
        points, lines = taken.points + self.points, before + self.lines
        self._drop(taken.dropped, taken.dropped_at)
        self._drop(max(0, len(points) - _POINTS_MAX), points[-1].at if points else 0.0)
        self._drop(max(0, len(lines) - _LINES_MAX), lines[-1][0] if lines else 0.0)
        self.points, self.lines = points[:_POINTS_MAX], lines[:_LINES_MAX]
        self.figures = taken.figures | self.figures

    def _drop(self, count: int, at: float) -> None:
        if count and not self.dropped:
            self.dropped_at = at
        self.dropped += count
