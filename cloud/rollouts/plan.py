"""What a rollout would do: who moves when, which evidence is asked for, what will be in its way. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import ceil, log
from typing import Final

from cloud.rollouts.criteria import Criterion
from cloud.rollouts.documents import PlannedStage, RolloutPlan, RolloutSpec
from cloud.rollouts.events import Target
from cloud.rollouts.making import new_run
from cloud.rollouts.placing import exponential
from cloud.rollouts.run import Run
from cloud.rollouts.stages import Stage
from cloud.rollouts.windows import opens_at

__all__ = ["exponential", "pairs_to_clear", "plan"]

SHOWN_MAX: Final = 100
_DISCORDANT: Final = 0.06
"""Share of samples that only one of two similar versions has right, for estimates."""


def plan(spec: RolloutSpec, targets: Sequence[Target], now: float) -> RolloutPlan:
    """As it would go if it started now and everything went well. Raises as `Rollout.plan_new`."""
    run = new_run("plan", spec, targets, "plan", now)
    stages: list[PlannedStage] = []
    at = now
    for stage in run.stages:
        if stage.kind != "watch":
            at = max(at, _last_window(run, stage, at))
        stages.append(
            PlannedStage(
                kind=stage.kind, number=stage.number,
                devices=tuple(
                    one.device for one in run.members[stage.first : stage.end][:SHOWN_MAX]
                ) if stage.kind != "watch" else (),
                count=stage.end - stage.first, earliest_s=at - now,
                needs=tuple(_needs(run, stage)), approval=stage.kind in spec.approvals,
            )
        )  # fmt: skip
        at += _lasts(spec, stage)
    return RolloutPlan(
        spec=spec, devices=len(run.members), stages=tuple(stages), warnings=tuple(_warnings(run))
    )


def pairs_to_clear(spec: RolloutSpec) -> int:
    """Answered samples until a version that loses nothing is shown to lose less than `worse`, on
    average, where 6 % of the samples tell the two apart.
    """
    growth = spec.worse * spec.worse / (2 * _DISCORDANT)
    return ceil((log(1 / spec.miss_risk) + log(8)) / growth)


def _lasts(spec: RolloutSpec, stage: Stage) -> float:
    if stage.kind == "watch":
        return spec.watch_s
    return 0.0 if stage.kind == "shadow" else spec.wave_s


def _last_window(run: Run, stage: Stage, at: float) -> float:
    zones = {one.zone for one in run.members[stage.first : stage.end]}
    return max((opens_at(run.hours, zone, at) for zone in zones), default=at)


def _needs(run: Run, stage: Stage) -> Iterator[str]:
    spec = run.spec
    count = stage.end - stage.first
    if stage.kind == "shadow":
        yield f"{count} devices run it in shadow"
        yield f"{spec.shadow_samples} samples in shadow, within {spec.shadow_s:.0f} s"
    elif stage.kind == "watch":
        yield f"{spec.watch_s:.0f} s without a violated criterion"
    else:
        yield f"{count} devices done: each {spec.done_samples} inferences on it; or failed, or left"
        yield f"{spec.wave_s:.0f} s after the last device took it"
        yield f"{spec.samples_min} inferences on it in this stage"
    for one in run.criteria:
        if _applies(one, stage):
            yield f"{one.text} ({one.measure.what})"
    if stage.kind == "shadow" and any(one.name == "accuracy_loss" for one in run.criteria):
        yield (
            f"a loss of {spec.worse:g} excluded: about {pairs_to_clear(spec)} samples that the "
            "cloud answers"
        )


def _applies(one: Criterion, stage: Stage) -> bool:
    where = one.measure.stage
    return where == "shadow" if stage.kind == "shadow" else where != "shadow"


def _warnings(run: Run) -> Iterator[str]:
    spec, members = run.spec, run.members
    names = {one.name for one in run.criteria}
    canary = run.stages[0].end
    if canary == 1:
        yield (
            f"the canary is one device ({members[0].device}): if that one is out of order, a person "
            "has to decide"
        )
    if canary == len(members) and len(members) > 1:
        yield "the canary is the whole fleet: nothing is left to compare with, and nothing is spared"
    if "disagreement" in names and not spec.audit_share:
        yield "audit_share is 0, so disagreement has no data: it will wait, and then ask a person"
    shadowed = run.stages[0].kind == "shadow"
    if "accuracy_loss" in names and not shadowed:
        yield "there is no shadow stage, so accuracy_loss is not asked for"
    if spec.selector:
        yield (
            f"it moves some of group {spec.group}: they keep it when it has succeeded, while others and "
            "newcomers have what the group has; a rollout without a selector moves the rest"
        )
    if not run.criteria:
        yield "there are no criteria: only installing and time gate this rollout"
    already = sum(one.before == run.before_it for one in members)
    if already:
        yield f"{already} devices have {run.version} already"
    before = Counter(one.before or "nothing known" for one in members)
    if len(before) > 1:
        words = ", ".join(f"{count} {name}" for name, count in sorted(before.items()))
        yield f"devices come from several versions: {words}"
    if shadowed and spec.shadow_samples < pairs_to_clear(spec):
        yield (
            f"shadow_samples is {spec.shadow_samples}, but about {pairs_to_clear(spec)} answered "
            "samples are needed to exclude the loss: the shadow will last longer"
        )
