"""The ends that are no success: devices stay as they are, or go back. Pure."""

from cloud.rollouts.deadlines import NOT_BACK
from cloud.rollouts.documents import Phase, RolloutStatus
from cloud.rollouts.orders import restore
from cloud.rollouts.run import Run

_RUNS_IT = frozenset({Phase.COMMITTED, Phase.DONE, Phase.SILENT})


def stop(run: Run, now: float, why: str, *, undo: bool) -> None:
    """Abort: no further device takes it; with `undo` those that did go back, all at once."""
    run.status, run.undoing, run.why, run.head = RolloutStatus.ABORTED, undo, why, True
    run.waits = run.asks = False
    run.queue.clear()
    run.note("undo" if undo else "aborted", why or "an operator decided it")
    for member in run.members:
        if undo or (member.phase not in _RUNS_IT and not member.runs_new):
            restore(run, member, now)
            if not undo and member.phase is Phase.UNDOING:
                run.move(member, Phase.LEFT, now, "the rollout was aborted before it took it")
        if member.phase is Phase.QUEUED and not member.ordered:
            run.touch(member)
    if not undo:
        run.ended_at = now
    ended(run, now)


def ended(run: Run, now: float) -> None:
    """An undo ends when every device has said that it is back, or was named for not saying it."""
    if not run.undoing or run.status is not RolloutStatus.ABORTED:
        return
    left = run.standing.of(0, len(run.standing.counts)).get(Phase.UNDOING, 0)
    if not left:
        run.status, run.undoing, run.ended_at, run.head = (
            RolloutStatus.ROLLED_BACK, False, now, True,
        )  # fmt: skip
        lost = sum(one.runs_new or one.why.startswith(NOT_BACK) for one in run.members)
        words = f"all but {lost} devices, which did not say so," if lost else "every device reached"
        run.note("rolled_back", f"back: {words}: {run.why}")
