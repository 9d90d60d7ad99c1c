"""A rollout from its specification, or a refusal in words. Pure."""

import itertools
from collections.abc import Sequence

from cloud.rollouts.arms import Evidence
from cloud.rollouts.criteria import parse_all
from cloud.rollouts.documents import ModelSubject, Phase, RolloutSpec
from cloud.rollouts.events import Target
from cloud.rollouts.member import Member
from cloud.rollouts.placing import cuts, in_order
from cloud.rollouts.run import Hearing, Run
from cloud.rollouts.stages import Standing, stages_of
from cloud.rollouts.windows import parse
from shared.errors import Conflict, Malformed


def new_run(
    rollout_id: str, spec: RolloutSpec, targets: Sequence[Target], by: str, now: float
) -> Run:
    """Raises `Malformed`, or `Conflict` for no devices."""
    contradictions(spec)
    by_name = {one.device: one for one in targets}
    if not by_name:
        raise Conflict(
            f"rollout {rollout_id}: no device of group {spec.group} is meant"
            + (f" by {spec.selector!r}" if spec.selector else "")
            + "; look at hybridge device list"
        )
    if len(by_name) != len(targets):
        raise Malformed(f"rollout {rollout_id}: a device is named twice")
    order = in_order(by_name, spec.seed)
    stages = stages_of(spec, len(order))
    first_live = 1 if stages[0].kind == "shadow" else 0
    ends = cuts(len(order), spec.canary, spec.waves)
    members, cut = [], 0
    for place, device in enumerate(order):
        cut += place >= ends[cut]
        one = by_name[device]
        members.append(
            Member(
                device, place, cut, first_live + cut, one.before, one.before_sha256, one.time_zone
            )
        )
    standing = Standing([{Phase.QUEUED: 0} for _ in ends])
    for member in members:
        standing.counts[member.cut][Phase.QUEUED] += 1
    return Run(
        id=rollout_id, spec=spec, criteria=parse_all(spec.criteria), hours=parse(spec.window),
        members=members, index={one.device: one for one in members}, stages=stages,
        standing=standing, evidence=Evidence(), created_by=by, created_at=now,
        hearing=Hearing(spec.silence_s),
    )  # fmt: skip


def contradictions(spec: RolloutSpec) -> None:
    """Raises `Malformed` where a specification cannot be meant so."""
    parse_all(spec.criteria)
    parse(spec.window)
    shares = (spec.canary, *spec.waves)
    if spec.canary <= 0:
        raise Malformed("canary: a share over 0; at least one device goes first")
    if any(after < before for before, after in itertools.pairwise(shares)):
        raise Malformed(
            f"waves {list(spec.waves)} after a canary of {spec.canary:g}: shares are cumulative "
            "and rise; write for example [0.25, 0.5, 1.0]"
        )
    if shares[-1] != 1:
        raise Malformed(f"waves end with {shares[-1]:g}; the last is 1, all devices")
    if spec.device_timeout_s < spec.silence_s:
        raise Malformed(
            f"device_timeout_s {spec.device_timeout_s:g} is under silence_s {spec.silence_s:g}: "
            "no device could ever be silent; raise the one or lower the other"
        )
    subject = spec.subject
    shadow = isinstance(subject, ModelSubject) and spec.shadow_s > 0
    if "shadow" in spec.approvals and not shadow:
        raise Malformed("approvals: there is no shadow stage to approve")
