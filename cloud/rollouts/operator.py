"""What a person may do to a rollout, and when. Pure."""

from cloud.rollouts.documents import Phase, RolloutStatus
from cloud.rollouts.events import Told
from cloud.rollouts.gate import open_stage, verdicts
from cloud.rollouts.orders import enqueue_stage
from cloud.rollouts.run import Run
from cloud.rollouts.stages import FAILED
from cloud.rollouts.undoing import stop
from shared.errors import Conflict

_STATES = {
    "start": (RolloutStatus.DRAFT,),
    "pause": (RolloutStatus.RUNNING,),
    "resume": (RolloutStatus.PAUSED,),
    "approve": (RolloutStatus.RUNNING, RolloutStatus.PAUSED),
    "skip": (RolloutStatus.RUNNING, RolloutStatus.PAUSED),
    "abort": (RolloutStatus.DRAFT, RolloutStatus.RUNNING, RolloutStatus.PAUSED),
    "undo": (RolloutStatus.RUNNING, RolloutStatus.PAUSED, RolloutStatus.ABORTED),
    "retry": (RolloutStatus.RUNNING, RolloutStatus.PAUSED),
}


def check(run: Run, told: Told, now: float) -> None:
    """Raises `Conflict` in words where it makes no sense now."""
    allowed = _STATES[told.what]
    if told.what == "pause" and run.asks:
        return  # it would go on by itself
    if run.status not in allowed:
        raise Conflict(
            f"rollout {run.id} is {run.status.value}; {told.what} needs it "
            f"{' or '.join(one.value for one in allowed)}"
        )
    match told.what:
        case "undo" if run.undoing:
            raise Conflict(f"rollout {run.id} is being undone already")
        case "approve" if not run.waits:
            raise Conflict(f"rollout {run.id} waits for no approval")
        case "skip":
            bad = [one.text for one in verdicts(run, now) if one.verdict == "violated"]
            if bad:
                raise Conflict(
                    f"{', '.join(bad)}: violated; waiting can be skipped, a failure cannot. "
                    "Undo it, or make a rollout with another criterion"
                )
        case "retry" if not any(one.phase in _AGAIN and not one.removed for one in run.members):
            raise Conflict(f"rollout {run.id}: no device has failed")
        case _:
            pass


_AGAIN = FAILED


def obey(run: Run, told: Told, now: float) -> None:
    """Of a command that `check` has let through; one that makes no sense (any more) does nothing."""
    try:
        check(run, told, now)
    except Conflict:
        return
    run.revision += 1
    run.head = True
    by = f"{told.by}: {told.what}" + (f" ({told.comment})" if told.comment else "")
    run.note(f"operator_{told.what}", by)
    stage = run.now_stage
    if told.what in ("pause", "resume", "skip"):
        run.asks = False
    match told.what:
        case "start":
            run.status, run.started_at = RolloutStatus.RUNNING, now
            run.listening_since = run.heard_at = run.stepped_at = now
            open_stage(run, now)
        case "pause":
            run.status, run.why = RolloutStatus.PAUSED, f"by {told.by}"
        case "resume":
            run.status, run.why, stage.asked_at = RolloutStatus.RUNNING, "", None
            run.evidence.changed = True
        case "approve":
            run.stages[run.stage + 1].approved, run.waits = True, False
        case "skip":
            stage.skipped = True
            if run.status is RolloutStatus.PAUSED:
                run.status, run.why = RolloutStatus.RUNNING, ""
        case "abort":
            stop(run, now, told.comment or f"by {told.by}", undo=False)
        case "undo":
            stop(run, now, told.comment or f"by {told.by}", undo=True)
        case "retry":
            _retry(run, now)


def _retry(run: Run, now: float) -> None:
    """The failed ones of the stages that are open, with the next attempt."""
    run.attempt += 1
    for member in run.members:
        if member.phase in _AGAIN and not member.removed:
            run.move(member, Phase.QUEUED, now, f"attempt {run.attempt}")
            member.attempt, member.taken_at = run.attempt, None
            member.samples = member.failures = member.silences = 0
    enqueue_stage(run, now, all_open=True)
