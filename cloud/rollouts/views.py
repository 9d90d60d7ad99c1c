"""A rollout as the API gives it. Pure."""

from cloud.rollouts.documents import Phase, RolloutView, StageView
from cloud.rollouts.gate import verdicts, waits_for
from cloud.rollouts.run import Run
from cloud.rollouts.stages import FAILED, INSTALLING, Stage


def view(run: Run, now: float) -> RolloutView:
    return RolloutView(
        id=run.id, spec=run.spec, status=run.status, undoing=run.undoing, why=run.why,
        stage=run.stage,
        stages=tuple(_stage(run, place, stage, now) for place, stage in enumerate(run.stages)),
        criteria=verdicts(run, now),
        phases={
            phase.value: count
            for phase, count in run.standing.of(0, len(run.standing.counts)).items()
        },
        attempt=run.attempt, waiting_for_approval=run.waits, created_by=run.created_by,
        created_at=run.created_at, started_at=run.started_at, ended_at=run.ended_at,
        revision=run.revision,
    )  # fmt: skip


def _stage(run: Run, place: int, stage: Stage, now: float) -> StageView:
    cuts = len(run.standing.counts)
    live = place - (run.stages[0].kind == "shadow")
    first, end = (0, cuts) if stage.kind == "watch" else (max(0, live), max(0, live) + 1)
    phases = run.standing.of(first, end)
    done = phases.get(Phase.DONE, 0)
    moving = INSTALLING | {Phase.ORDERED, Phase.COMMITTED, Phase.UNDOING}
    if stage.kind == "shadow":
        done += phases.get(Phase.STAGED, 0) + phases.get(Phase.COMMITTED, 0)
        moving -= {Phase.STAGED, Phase.COMMITTED}
    return StageView(
        kind=stage.kind, number=stage.number, devices=stage.end - stage.first, done=done,
        failed=sum(phases.get(one, 0) for one in FAILED),
        in_flight=sum(phases.get(one, 0) for one in moving),
        left=phases.get(Phase.LEFT, 0) + phases.get(Phase.UNDONE, 0), opened_at=stage.opened_at, ended_at=stage.ended_at,
        waits_for=waits_for(run, now) if place == run.stage else "",
    )  # fmt: skip
