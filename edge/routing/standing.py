"""Calm, watchful or novel, and whether audits are raised: moved on by each step of a watch. Pure."""

from dataclasses import dataclass, replace
from typing import Literal

from edge.routing.settings import Novelty

Level = Literal["calm", "watchful", "novel"]

STRAYS_MAX = 2
"""Novel inputs in one window that are ordinary: of known ones one in 200 is."""
STRAYS_SHARE = 0.25
"""Of a window; from it on all is novel, whatever the score."""
_HALVINGS_MAX = 6


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one step; score and strays are of the window that ends with it."""

    score: float
    strays: int
    window_looks: int
    looks: int
    elapsed_s: float
    room: float
    """The largest share of samples that the budget has room for."""


@dataclass(frozen=True, slots=True)
class Standing:
    level: Level = "calm"
    calm_looks: int = 0
    """In a row with a low score."""
    raised: float = 0.0
    """Share of audits since inputs are novel; it may sink, for want of budget, but never rises."""
    raised_s: float = 0.0
    """How long audits were raised. Time that is not novel makes it shorter again."""
    raised_out: bool = False
    """For too long; until half of it is made good."""

    def audit_share(self, plain: float) -> float:
        raised = self.level == "novel" and not self.raised_out
        return max(plain, self.raised) if raised else plain


def moved(now: Standing, evidence: Evidence, settings: Novelty) -> Standing:
    """`now` itself where nothing changes, as it does not for most of a device's life."""
    timed = _timed(now, evidence.elapsed_s, settings.raised_s_max)
    strays = evidence.strays
    if evidence.score >= settings.novel_score or strays >= STRAYS_SHARE * max(
        evidence.window_looks, 1
    ):
        before = now.raised if now.level == "novel" else settings.audit_share
        raised = _within(before, evidence.room)
        return replace(timed, level="novel", calm_looks=0, raised=raised)
    if now.level == "novel":
        timed = replace(timed, raised=_within(now.raised, evidence.room))
    if evidence.score >= settings.watchful_score or strays > STRAYS_MAX:
        level: Level = "novel" if now.level == "novel" else "watchful"
        return replace(timed, level=level, calm_looks=0)
    calm_looks = min(now.calm_looks + evidence.looks, settings.calm_looks)
    level = "calm" if calm_looks >= settings.calm_looks else now.level
    if (level, calm_looks) == (timed.level, timed.calm_looks):
        return timed
    return replace(timed, level=level, calm_looks=calm_looks)


def _timed(now: Standing, elapsed_s: float, raised_s_max: float) -> Standing:
    if now.level != "novel":
        if not now.raised_s and not now.raised_out:
            return now
        left = max(now.raised_s - elapsed_s, 0.0)
        return replace(now, raised_s=left, raised_out=now.raised_out and left > raised_s_max / 2)
    spent = min(now.raised_s + elapsed_s, raised_s_max)
    return replace(now, raised_s=spent, raised_out=now.raised_out or spent >= raised_s_max)


def _within(share: float, room: float) -> float:
    """Halved until there is room: a tally has a row for each share that was in force, and few rows."""
    for _ in range(_HALVINGS_MAX):
        if share <= room:
            return share
        share /= 2
    return share if share <= room else 0.0
