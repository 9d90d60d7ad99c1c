"""What begins a cycle. Pure."""

from dataclasses import dataclass
from typing import Final

from cloud.fleet.documents import EVERYBODY
from cloud.learning.documents import Cycle, LoopSettings, Phase, TriggerKind
from cloud.monitoring.drift.documents import Accuracy, Alarm, Kind

_IN_VAIN_S: Final = 300.0
"""After a cycle that led to nothing. What made it fail may stand, and each one leaves a data set behind."""
_ABOUT_THE_MODEL = frozenset({Kind.INPUT, Kind.ANSWER, Kind.ACCURACY})


@dataclass(frozen=True, slots=True)
class Facts:
    """As they are now."""

    samples_new: int
    """Since the last cycle began, or since ever."""
    alarms: tuple[Alarm, ...] = ()
    accuracy: Accuracy | None = None
    """Of the current version, on the loop's group."""


@dataclass(frozen=True, slots=True)
class Trigger:
    kind: TriggerKind
    words: str


def next_at(settings: LoopSettings, last: Cycle | None) -> float | None:
    """Unix seconds before which nothing triggers; None: at any time."""
    if last is None or last.ended_at is None:
        return None
    pause_s = settings.triggers.pause_s
    return last.ended_at + (pause_s if last.phase is Phase.DONE else max(pause_s, _IN_VAIN_S))


def triggered(
    settings: LoopSettings, facts: Facts, last: Cycle | None, made_at: float, now: float
) -> Trigger | None:
    """What begins a cycle of a loop that has none now. `made_at`: of the loop.

    An alarm goes before the others: it says what is wrong.
    """
    triggers, earliest = settings.triggers, next_at(settings, last)
    if not settings.enabled or (earliest is not None and now < earliest):
        return None
    if triggers.drift and (alarm := _alarm(settings, facts, last)) is not None:
        return Trigger(TriggerKind.DRIFT, f"alarm {alarm.id}: {alarm.words}"[:1000])
    below, accuracy = triggers.accuracy_below, facts.accuracy
    if below is not None and accuracy is not None and accuracy.high < below:
        return Trigger(
            TriggerKind.ACCURACY,
            f"{accuracy.estimate:.1%} right by {accuracy.audits} audits, at most {accuracy.high:.1%} "
            f"with 95% confidence; the loop wants {below:.1%}",
        )
    if triggers.samples is not None and facts.samples_new >= triggers.samples:
        return Trigger(TriggerKind.SAMPLES, f"{facts.samples_new} samples since the last cycle")
    if triggers.every_s is not None:
        before = made_at if last is None else last.begun_at
        if now - before >= triggers.every_s:
            return Trigger(TriggerKind.TIME, f"{now - before:.0f} s since the last cycle began")
    return None


def _alarm(settings: LoopSettings, facts: Facts, last: Cycle | None) -> Alarm | None:
    """The oldest that is about this loop, and about which the last cycle did nothing."""
    learned_at = last.begun_at if last is not None and last.phase is Phase.DONE else None
    about = [
        one
        for one in facts.alarms
        if one.closed_at is None
        and one.kind in _ABOUT_THE_MODEL
        and one.scope.model == settings.model
        and is_of_group(one, settings.group)
        and (learned_at is None or one.opened_at > learned_at)
    ]
    return min(about, key=lambda one: (one.opened_at, one.id), default=None)


def is_of_group(alarm: Alarm, group: str) -> bool:
    """Whether it is about the fleet or that group; one device's sensor is no reason to learn."""
    match alarm.scope.kind:
        case "fleet":
            return True
        case "group":
            return group in {EVERYBODY, alarm.scope.name}
        case "device":
            return False
