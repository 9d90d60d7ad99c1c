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
    metrics: set[str] = field(default_factory=set)
    """Those that there are points of, from the first beat on."""

    def measured(self, step: int, values: dict[str, float], at: float) -> None:
        for metric, value in sorted(values.items()):
            if metric not in self.metrics:
                if len(self.metrics) >= _METRICS_MAX:
                    self.dropped += 1
                    continue
                self.metrics.add(metric)
            self.figures[metric] = value
            if len(self.points) < _POINTS_MAX:
                self.points.append(Point(metric=metric, step=step, value=value, at=at))
            else:
                self.dropped += 1

    def said(self, text: str, at: float) -> None:
        if len(self.lines) < _LINES_MAX:
            self.lines.append((at, text[:_LINE_MAX]))
        else:
            self.dropped += 1

    def taken(self) -> "Notes":
        """All of it; this one is empty then."""
        taken = Notes(self.run, self.points, self.lines, self.figures)
        if self.dropped:
            at = self.lines[-1][0] if self.lines else 0.0
            taken.lines.append(
                (at, f"({self.dropped} points and lines more, of which nothing is kept)")
            )
        self.run, self.points, self.lines, self.figures, self.dropped = None, [], [], {}, 0
        return taken

    def put_back(self, taken: "Notes") -> None:
        """It was not stored: before what came since, within the bounds."""
        self.run = self.run or taken.run
        points, lines = taken.points + self.points, taken.lines + self.lines
        self.dropped += max(0, len(points) - _POINTS_MAX) + max(0, len(lines) - _LINES_MAX)
        self.points, self.lines = points[:_POINTS_MAX], lines[:_LINES_MAX]
        self.figures = taken.figures | self.figures
