"""When an alarm opens and when it closes: two thresholds, several looks, and chance that is spent. Pure."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from cloud.monitoring.drift.settings import DriftSettings

_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What one look at new samples of a scope found about one kind of drift."""

    is_over: bool = False
    """The effect is over its bound, and chance alone would hardly do that."""
    is_overwhelming: bool = False
    is_gone: bool = False
    """The effect is well under its bound."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """Of one scope and kind; the default one needs not be kept."""

    is_on: bool = False
    over: int = 0
    """Successive looks that found it."""
    gone: int = 0
    """Successive looks that found it gone."""


class Turn(Enum):
    OPENS = auto()
    CLOSES = auto()


def step(gauge: Gauge, reading: Reading, settings: DriftSettings) -> tuple[Gauge, Turn | None]:
    """Only for looks with new samples: the same window found twice says nothing more."""
    if gauge.is_on:
        gone = gauge.gone + 1 if reading.is_gone else 0
        if gone >= settings.looks_to_close:
            return Gauge(), Turn.CLOSES
        return Gauge(is_on=True, gone=gone), None
    if not reading.is_over:
        return Gauge(), None
    over = gauge.over + 1
    if reading.is_overwhelming or over >= settings.looks_to_open:
        return Gauge(is_on=True), Turn.OPENS
    return Gauge(over=over), None


def spent(settings: DriftSettings, scopes: int, tests: int) -> float:
    """The chance that one test of one scope at one look may have of being wrong, so that over a day
    of looks all scopes of a kind have `false_alarms_per_day` (Bonferroni, so it holds whatever their
    windows share).
    """
    looks = _DAY_S / settings.look_s
    return settings.false_alarms_per_day / (looks * max(1, scopes) * max(1, tests))
