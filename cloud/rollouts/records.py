"""A rollout as its store keeps it, and back. JSON; what can be worked out again is not kept."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any, Final

from cloud.rollouts.arms import Evidence, Histogram, Level, ShadowSums, Spread
from cloud.rollouts.criteria import parse_all
from cloud.rollouts.deadlines import due
from cloud.rollouts.documents import RolloutSpec, RolloutStatus
from cloud.rollouts.gate import verdicts
from cloud.rollouts.member import Member
from cloud.rollouts.orders import waits
from cloud.rollouts.run import Hearing, Run, is_busy
from cloud.rollouts.stages import Stage, Standing
from cloud.rollouts.windows import parse
from shared.errors import Malformed

FORMAT: Final = 1
_PLAIN: Final = (
    "id", "created_by", "created_at", "undoing", "why", "stage", "attempt", "waits", "asks", "started_at",
    "ended_at", "live_at", "revision", "stepped_at", "heard_at", "listening_since",
)  # fmt: skip


def head(run: Run) -> bytes:
    tree: dict[str, Any] = {name: getattr(run, name) for name in _PLAIN}
    tree |= {
        "format": FORMAT,
        "spec": run.spec.model_dump(mode="json"),
        "status": run.status.value,
        "stages": [dataclasses.asdict(stage) for stage in run.stages],
        "cuts": len(run.standing.counts),
        "evidence": dataclasses.asdict(run.evidence),
    }
    return json.dumps(tree, separators=(",", ":")).encode()


def restored(record: bytes, device_records: Sequence[bytes]) -> Run:
    """Raises `Malformed` for a record of a newer program."""
    tree = json.loads(record)
    if tree["format"] != FORMAT:
        raise Malformed(
            f"rollout {tree['id']}: format {tree['format']}, this program knows {FORMAT}"
        )
    spec = RolloutSpec.model_validate(tree["spec"])
    members = sorted((Member.from_record(one) for one in device_records), key=lambda m: m.place)
    run = Run(
        spec=spec, criteria=parse_all(spec.criteria), hours=parse(spec.window), members=members,
        index={one.device: one for one in members},
        stages=[Stage(**stage) for stage in tree["stages"]],
        standing=Standing([{} for _ in range(tree["cuts"])]), evidence=_evidence(tree["evidence"]),
        status=RolloutStatus(tree["status"]), hearing=Hearing(spec.silence_s),
        **{name: tree[name] for name in _PLAIN},
    )  # fmt: skip
    for member in members:
        _again(run, member)
    run.judged = verdicts(run, run.stepped_at)
    return run


def _again(run: Run, member: Member) -> None:
    counts = run.standing.counts[member.cut]
    counts[member.phase] = counts.get(member.phase, 0) + 1
    run.installing += is_busy(member)
    if not member.ordered and member.heard_at is not None:
        run.hearing.heard(None, member.heard_at)
    if not (run.active or run.undoing):
        return
    shadow = run.now_stage.kind == "shadow"
    if run.active and member.place < run.reached and waits(member, shadow=shadow):
        run.enqueue(member, member.opens_at)
    run.look_at(member, due(run, member))


def _evidence(tree: dict[str, Any]) -> Evidence:
    for name in ("escalation", "disagreement", "failures"):
        tree[name] = _level(tree[name])
    for name in ("latency", "confidence"):
        tree[name] = Histogram(**tree[name])
    tree["shadow"] = ShadowSums(**tree["shadow"])
    return Evidence(**tree)


def _level(tree: dict[str, Any]) -> Level:
    spread, drift = Spread(**tree.pop("spread")), Spread(**tree.pop("drift"))
    return Level(**tree, spread=spread, drift=drift)
