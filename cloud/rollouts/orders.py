"""Which devices get their order now, and how they are ordered back. Pure.

Every device that ever got an order is ordered back when a rollout is undone, those too that never
took it: what is retained for them would otherwise reach them when they come back.
"""

import heapq
import math

from cloud.rollouts.documents import Phase
from cloud.rollouts.events import Order, Restore
from cloud.rollouts.member import Member
from cloud.rollouts.run import Run
from cloud.rollouts.stages import INSTALLING
from cloud.rollouts.windows import opens_at

_RAN = frozenset({Phase.TRIAL, Phase.COMMITTED, Phase.DONE, Phase.SILENT})


def release(run: Run, now: float) -> None:
    """Order those that wait, as far as windows and `in_flight_max` let them."""
    while run.queue and run.queue[0][0] <= now and run.installing < run.spec.in_flight_max:
        at, place = heapq.heappop(run.queue)
        member = run.members[place]
        if at != member.opens_at:
            continue  # of before: it left, or was told anew, and waits from another moment on
        if not waits(member, shadow=run.now_stage.kind == "shadow"):
            continue
        due = opens_at(run.hours, member.zone, now)
        if due > now:
            run.enqueue(member, due)
        else:
            order(run, member, now)


def waits(member: Member, *, shadow: bool) -> bool:
    """For an order: its first, or the one that makes it live."""
    if member.removed:
        return False
    if member.phase is Phase.QUEUED:
        return True
    staged = member.ordered == "shadow" and member.phase in INSTALLING | {Phase.ORDERED}
    return staged and not shadow


def order(run: Run, member: Member, now: float) -> None:
    """Send it, or send it again: the same content reaches a device once."""
    stage = "shadow" if run.now_stage.kind == "shadow" else "live"
    again = member.phase in INSTALLING
    if not member.ordered and member.heard_at is not None:
        run.hearing.forget(member.heard_at)
    member.ordered = "shadow" if stage == "shadow" else "live"
    member.taken_at = now if again else None
    if not again:
        run.move(member, Phase.ORDERED, now)
    else:
        run.busy_again(member)
    run.touch(member)
    run.out.append(Order(member.device, member.ordered, member.attempt))
    run.look_at(member, now)


def there_again(run: Run, member: Member, now: float) -> None:
    """A device that had left is there, and its order still out. What it runs already it need not
    take again; an order that is for the shadow turns live as those of others do.
    """
    if member.runs_new:
        run.move(member, Phase.COMMITTED, now, "came back")
        run.look_at(member, now)
        return
    if member.ordered == "live" or run.now_stage.kind == "shadow":
        order(run, member, now)
        return
    member.taken_at = None
    run.move(member, Phase.ORDERED, now, "came back")
    run.enqueue(member, opens_at(run.hours, member.zone, now))
    run.look_at(member, now)


def enqueue_stage(run: Run, now: float, *, all_open: bool = False) -> None:
    """Its devices wait for their window from now on; with `all_open` those of earlier stages, too."""
    stage = run.now_stage
    for member in run.members[0 if all_open else stage.first : stage.end]:
        if waits(member, shadow=stage.kind == "shadow"):
            run.enqueue(member, opens_at(run.hours, member.zone, now))


def restore(run: Run, member: Member, now: float) -> None:
    """Order it back; whoever may run the new version has to say that it is back."""
    if not member.ordered:
        return
    at_once = member.runs_new or member.phase in _RAN
    run.out.append(Restore(member.device, at_once))
    run.touch(member)
    if at_once or member.phase in INSTALLING:
        run.move(member, Phase.UNDOING, now)
        run.look_at(member, now)
    elif member.phase is Phase.ORDERED:
        run.move(member, Phase.LEFT, now, "was ordered back before it took its order")


def next_window(run: Run) -> float:
    """When the first of those that wait may go; infinity where nobody waits."""
    return run.queue[0][0] if run.queue else math.inf
