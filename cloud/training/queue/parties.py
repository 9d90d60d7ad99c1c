"""What the scheduler is told and what it decides. Frozen, no I/O."""

from dataclasses import dataclass
from typing import Final

LEVELS: Final = 10
"""Priorities from 0 to 9."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A job that may start now: it is due."""

    id: str
    team: str
    priority: int
    cpus: int
    since: float
    """Unix seconds of its submission, or of when it last gave its place: else it would take it back."""
    away_at: str = ""
    """The worker that gave it back because something was away for it there. Empty: nothing was."""


@dataclass(frozen=True, slots=True)
class Running:
    id: str
    team: str
    priority: int
    cpus: int
    worker: str
    began_at: float
    """Of this attempt."""
    level: int = 0
    """What it counted for when it began."""
    stopping: bool = False
    """It was told to; its CPUs come free."""
    preempted_at: float | None = None
    """The last time."""


@dataclass(frozen=True, slots=True)
class Place:
    """A worker that is alive."""

    name: str
    cpus: int


@dataclass(frozen=True, slots=True)
class Share:
    """A team's part."""

    team: str
    cpus_max: int
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Rules:
    aging_s: float
    reserve_after_s: float
    preempt_pause_s: float
    """In which a job that gave its place, or began because it had waited longest, is not stopped."""


@dataclass(frozen=True, slots=True)
class Start:
    job: str
    worker: str


@dataclass(frozen=True, slots=True)
class Preemption:
    """`job` gives its place to `by`."""

    job: str
    by: str


@dataclass(frozen=True, slots=True)
class Decision:
    starts: tuple[Start, ...]
    preemptions: tuple[Preemption, ...]
    reasons: dict[str, str]
    """Of each job that goes on waiting: why, in words."""
    order: tuple[str, ...]
    """All that waited, as they were looked at."""


def level(priority: int, waited_s: float, aging_s: float) -> int:
    """What a job counts for: its priority, and one for each `aging_s` that it has waited."""
    return priority + int(max(0.0, waited_s) / aging_s)
