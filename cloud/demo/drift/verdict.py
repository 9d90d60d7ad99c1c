"""What the demo must show, and whether it did. Pure."""

from dataclasses import dataclass
from typing import Final

DELAY_MAX: Final = 200
REGAINED_MIN: Final = 0.55
REGAINED_MEAN: Final = 0.80


@dataclass(frozen=True, slots=True)
class Row:
    """One shift. Accuracies of the edge's model alone, on images that no camera saw, in 0..1."""

    kind: str
    delay_samples: int
    """Of the drifting group since the shift, when the alarm that names it was seen."""
    data_rows: int
    """That taught: escalated and audited, nothing else."""
    clean_before: float
    clean_after: float
    before: float
    after: float
    cycle_s: float
    moved: bool
    """Every camera of the group runs the new version, and no other camera does."""
    why: str = ""
    """Of a cycle that did not end well."""
    missed: tuple[str, ...] = ()
    """The gates' findings that did not hold."""

    @property
    def regained(self) -> float:
        """Share of what the shift cost."""
        return (self.after - self.before) / (self.clean_before - self.before)

    @property
    def clean_loss(self) -> float:
        return self.clean_before - self.clean_after


def failures(row: Row, clean_loss_max: float) -> list[str]:
    """In words; empty when all is well."""
    if row.why:
        return [f"{row.kind}: {row.why}"]
    wrong = []
    if row.delay_samples <= 0:
        wrong.append("the alarm came before anything had drifted")
    if row.delay_samples > DELAY_MAX:
        wrong.append(f"the alarm took {row.delay_samples} samples, at most {DELAY_MAX}")
    if row.regained < REGAINED_MIN:
        wrong.append(f"regained {row.regained:.0%} of what was lost, at least {REGAINED_MIN:.0%}")
    if row.clean_loss > clean_loss_max:
        wrong.append(f"lost {row.clean_loss:.2%} on clean images, at most {clean_loss_max:.1%}")
    if not row.moved:
        wrong.append("not exactly the group's cameras run the new version")
    return [f"{row.kind}: {one}" for one in wrong]


def not_refused(row: Row) -> list[str]:
    """Of a run whose teacher is worse than the edge, where it was not refused for that."""
    if row.why and "teacher_gain" in row.missed:
        return []
    return [f"{row.kind}: the worse teacher was not refused as one: {row.why or 'it ended well'}"]


def mean_failure(rows: list[Row]) -> list[str]:
    """Of all shifts together."""
    mean = mean_regained(rows)
    if mean >= REGAINED_MEAN:
        return []
    return [f"regained {mean:.0%} on average, at least {REGAINED_MEAN:.0%}"]


def mean_regained(rows: list[Row]) -> float:
    """Nothing by a version that no camera runs."""
    return sum(0.0 if row.why else row.regained for row in rows) / len(rows)
