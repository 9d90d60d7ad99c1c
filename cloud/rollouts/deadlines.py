"""What happens when nothing happens: devices that do not start, do not finish, or fall silent. Pure.

Each device has one next deadline; a heap holds them, so that time costs what is due and not what
there is. A region that did not listen itself (it was down, or lost its broker) blames nobody: all
deadlines count from when it listens again.
"""

import heapq
import math
from typing import Final

from cloud.rollouts.documents import Phase
from cloud.rollouts.member import Member
from cloud.rollouts.run import Run

QUIET: Final = 2.0
"""A device that had so many times fewer samples than it used to have in that time hangs."""
NOT_BACK: Final = "did not say within"
_INSTALLS: Final = frozenset(
    {Phase.ACCEPTED, Phase.DOWNLOADING, Phase.VERIFIED, Phase.TRIAL, Phase.STAGED}
)


def listen(run: Run, now: float, *, heard: bool) -> None:
    """Called at every step, before anything else."""
    again = heard and now - run.heard_at > gap(run)
    if again or now - run.stepped_at > gap(run):
        run.listening_since = now
    if heard:
        run.heard_at = now
    run.stepped_at = now
    if again:  # deadlines that waited for the link are near now
        for member in run.members:
            run.look_at(member, due(run, member))


def gap(run: Run) -> float:
    """Seconds without a step, or a word, that are no chance."""
    return run.spec.silence_s / 4


def due(run: Run, member: Member) -> float:
    """When something has to happen to it; infinity: never."""
    spec, since = run.spec, run.listening_since
    phase = member.phase
    if phase is Phase.ORDERED:
        return max(member.since, since) + spec.start_timeout_s
    if phase is Phase.STAGED and member.ordered == "shadow":
        return math.inf
    if phase in _INSTALLS:
        return _install_due(run, member)
    if phase is Phase.COMMITTED:
        return min(_install_due(run, member), _silent_at(run, member))
    if phase is Phase.DONE:
        return _silent_at(run, member)
    if phase is Phase.UNDOING:
        return max(member.since, since) + spec.device_timeout_s
    return math.inf


def _install_due(run: Run, member: Member) -> float:
    begun = member.since if member.taken_at is None else member.taken_at
    return max(begun, run.listening_since) + run.spec.device_timeout_s


def _silent_at(run: Run, member: Member) -> float:
    heard = member.since if member.heard_at is None else member.heard_at
    at = max(heard, run.listening_since) + run.spec.silence_s
    nobody = run.stepped_at - run.heard_at > gap(run)
    return at + run.spec.device_timeout_s if nobody else at  # not for ever: they may all be broken


def expire(run: Run, now: float) -> None:
    while run.deadlines and run.deadlines[0][0] <= now:
        at, place = heapq.heappop(run.deadlines)
        member = run.members[place]
        if at != member.listed_at:
            continue  # an earlier look was planned since
        member.listed_at = math.inf
        if due(run, member) <= now:
            _late(run, member, now)
        again = due(run, member)
        if again < math.inf:
            run.look_at(member, max(again, now))


def _late(run: Run, member: Member, now: float) -> None:
    spec = run.spec
    match member.phase:
        case Phase.ORDERED:
            run.move(
                member, Phase.LEFT, now,
                f"did not take its order within {spec.start_timeout_s:.0f} s; it may come back",
            )  # fmt: skip
        case Phase.UNDOING:
            why = f"{NOT_BACK} {spec.device_timeout_s:.0f} s that it went back"
            run.note("not_undone", f"{member.device} {why}", member.device)
            run.move(member, Phase.TIMED_OUT, now, why)
        case Phase.COMMITTED | Phase.DONE if _silent_at(run, member) <= now:
            member.silences += 1
            run.move(member, Phase.SILENT, now, f"said nothing for {spec.silence_s:.0f} s")
        case Phase.COMMITTED if _is_quiet(run, member):
            run.move(
                member, Phase.LEFT, now,
                f"runs it, but had {member.samples} samples in {spec.device_timeout_s:.0f} s, "
                f"and no more before; {spec.done_samples} were needed",
            )  # fmt: skip
        case _:
            run.move(
                member, Phase.TIMED_OUT, now,
                f"was {member.phase.value} {spec.device_timeout_s:.0f} s after it took its order",
            )  # fmt: skip


def _is_quiet(run: Run, member: Member) -> bool:
    """It saw few samples on the version before, too: that is not the new one's fault."""
    meter = member.meter
    usual = (meter.per_s if meter else 0.0) * run.spec.device_timeout_s
    return meter is not None and not member.failures and usual < QUIET * run.spec.done_samples
