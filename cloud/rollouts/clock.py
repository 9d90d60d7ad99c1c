"""A rollout's time: what the region did not see does not count, and a clock may be set back. Pure.

Machine clocks are set by years when a time server is found. A jump forward looks like time in which
the region was down: neither deadlines nor stages go by it. After a jump back what lies in the future
has just happened, so that nothing waits until the clock has come there again.
"""

import heapq
import math
from typing import Final

from cloud.rollouts.deadlines import due, gap
from cloud.rollouts.run import Hearing, Run
from cloud.rollouts.windows import opens_at

NOTICED_S: Final = 120.0
"""Shorter gaps are nothing: a turn that takes long, a device that tells little, an adjusted clock."""


def kept(run: Run, now: float) -> float:
    """The time of this step, never before that of the last one, but where the clock was set back."""
    if run.started_at is None or run.stepped_at - now <= max(NOTICED_S, gap(run)):
        return max(now, run.stepped_at)
    _set_back(run, now)
    return now


def missed(run: Run, now: float, *, heard: bool) -> None:
    """Before each step: what the region did not see, since it was away or heard nobody at all."""
    away = now - run.stepped_at
    if away > max(NOTICED_S, gap(run)):
        run.heard_at = min(now, run.heard_at + away)
        _unseen(run, away, now)
    elif heard and is_deaf(run, now):
        _unseen(run, now - run.heard_at, now)


def is_deaf(run: Run, now: float) -> bool:
    """Nobody at all is heard, for longer than any one device may be silent."""
    return now - run.heard_at > max(NOTICED_S, run.spec.silence_s)


def _unseen(run: Run, seconds: float, now: float) -> None:
    """The open stage lasts longer by it, and asks later."""
    stage = run.now_stage
    stage.unseen_s += seconds
    lasts = run.spec.watch_s if stage.kind == "watch" else run.spec.wave_s
    stage.ends_after = now + min(lasts, run.spec.silence_s)
    if stage.asked_at is not None:
        stage.asked_at = min(now, stage.asked_at + seconds)
    run.head = True


def _set_back(run: Run, now: float) -> None:
    back = run.stepped_at - now
    run.note("clock_set_back", f"by {back:.0f} s; deadlines begin anew")
    run.head = True
    run.stepped_at = run.listening_since = now
    run.heard_at = min(run.heard_at, now)
    run.live_at = _past(run.live_at, now)
    for stage in run.stages:
        stage.opened_at, stage.ended_at = _past(stage.opened_at, now), _past(stage.ended_at, now)
        stage.took_at, stage.asked_at = _past(stage.took_at, now), _past(stage.asked_at, now)
        stage.unseen_s, stage.ends_after = 0.0, None
    waiting = {place for _, place in run.queue}
    run.queue, run.deadlines, run.hearing = [], [], Hearing(run.spec.silence_s)
    for member in run.members:
        member.since = min(member.since, now)
        member.taken_at, member.heard_at = _past(member.taken_at, now), _past(member.heard_at, now)
        member.listed_at = math.inf
        if (meter := member.meter) is not None:
            # as long ago as before: a device can have counted only so much since
            meter.at, meter.shadow_at = meter.at - back, meter.shadow_at - back
        if not member.ordered and member.heard_at is not None:
            run.hearing.heard(None, member.heard_at)
        if member.place in waiting:
            member.opens_at = opens_at(run.hours, member.zone, now)
            run.queue.append((member.opens_at, member.place))
        run.touch(member)
        run.look_at(member, due(run, member))
    heapq.heapify(run.queue)


def _past(at: float | None, now: float) -> float | None:
    return None if at is None else min(at, now)
