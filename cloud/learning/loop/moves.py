"""How a cycle moves: past an arrow, which may ask a person first, or to its end. Pure."""

from typing import assert_never

from cloud.learning.documents import Arrow, Cycle, Phase
from cloud.learning.loop.commands import (
    AnyCommand,
    Approve,
    Build,
    Choose,
    Evaluate,
    Release,
    Roll,
    WatchRollout,
    WatchVersion,
)
from cloud.learning.loop.record import CycleRecord, Ending, data_spec
from shared.bundle.manifest import Version

_PHASES = {
    Arrow.DATA_SET: Phase.DATA_SET, Arrow.TRAIN: Phase.TRAINING, Arrow.EVALUATE: Phase.EVALUATING,
    Arrow.APPROVE: Phase.APPROVING, Arrow.RELEASE: Phase.RELEASING,
    Arrow.ROLLOUT: Phase.ROLLING_OUT, Arrow.WATCH: Phase.WATCHING,
}  # fmt: skip
_IN_THE_REGISTRY = frozenset({Arrow.APPROVE, Arrow.RELEASE})
"""What somebody may do there by himself while the cycle asks."""


def changed(record: CycleRecord, now: float, **changes: object) -> CycleRecord:
    """With these members of the record or of its cycle, one revision on; `since` moves with the
    phase.
    """
    of_cycle = {name: value for name, value in changes.items() if name in Cycle.model_fields}
    of_record = {name: value for name, value in changes.items() if name not in of_cycle}
    if of_cycle.get("phase", record.cycle.phase) is not record.cycle.phase:
        of_cycle["since"] = now
    for words in ("why", "waits_for"):
        if isinstance(text := of_cycle.get(words), str):
            of_cycle[words] = text[:1000]
    cycle = record.cycle.model_copy(update={**of_cycle, "revision": record.cycle.revision + 1})
    return record.model_copy(update={**of_record, "cycle": cycle})


def enter(record: CycleRecord, arrow: Arrow, now: float, words: str = "") -> CycleRecord:
    """Past the arrow, or before it, asking; `words` say why, beside the settings."""
    asks = arrow in record.settings.asks or arrow in record.asked_too
    if asks and arrow not in record.granted:
        look: AnyCommand | None = None
        if arrow in _IN_THE_REGISTRY:
            look = WatchVersion(model=record.cycle.model, version=version_of(record))
        elif arrow is Arrow.WATCH:  # its devices have it already
            look = rollout_watch(record)
        phase = _PHASES[arrow] if arrow in _IN_THE_REGISTRY else record.cycle.phase
        verb = words or f"a person's go before {arrow}"
        return changed(
            record, now, phase=phase, asks=arrow, doing=look,
            waits_for=f"{verb}: hybridge loop go {record.cycle.model} -m WHY, or stop",
        )  # fmt: skip
    record = changed(record, now, phase=_PHASES[arrow], asks=None, waits_for="")
    return changed(record, now, **_first(record, arrow, now))


def close(
    record: CycleRecord, phase: Phase, why: str, now: float, last: AnyCommand | None = None
) -> CycleRecord:
    """End it, once `last` is done where there is something to do first."""
    why = why.strip().removesuffix(":")[:1000]
    if last is None:
        return changed(
            record, now, phase=phase, why=why, asks=None, waits_for="", doing=None, ending=None,
            ended_at=now,
        )  # fmt: skip
    return changed(
        record, now, doing=last, asks=None, ending=Ending(phase=phase, why=why),
        waits_for=f"{last.kind.replace('_', ' ')}, before it ends: {why}",
    )  # fmt: skip


def version_of(record: CycleRecord) -> Version:
    """Once it is chosen."""
    assert record.cycle.version is not None
    return record.cycle.version


def now_in(cycle: Cycle) -> tuple[Phase, Arrow | None, str]:
    """What a person would call where it is; progress within it is left out."""
    words = cycle.why or cycle.waits_for
    return cycle.phase, cycle.asks, words.partition(";")[0]


def _first(record: CycleRecord, arrow: Arrow, now: float) -> dict[str, object]:
    """What the phase behind the arrow does first."""
    settings, cycle = record.settings, record.cycle
    comment = f"cycle {cycle.id}: {cycle.trigger_words}"[:500]
    match arrow:
        case Arrow.DATA_SET:
            until = now if record.samples_until is None else record.samples_until
            spec = data_spec(settings, record.samples_since, until)
            return {
                "doing": Build(name=cycle.id, spec=spec, group=settings.group),
                "samples_until": until,
            }
        case Arrow.TRAIN:
            return {"doing": Choose(model=settings.model, teacher=settings.teacher)}
        case Arrow.EVALUATE:
            assert cycle.job is not None
            return {
                "doing": Evaluate(
                    model=cycle.model, version=version_of(record), job=cycle.job
                )
            }  # fmt: skip
        case Arrow.APPROVE:
            return {
                "doing": Approve(model=cycle.model, version=version_of(record), comment=comment)
            }
        case Arrow.RELEASE:
            return {
                "doing": Release(model=cycle.model, version=version_of(record), comment=comment)
            }
        case Arrow.ROLLOUT:
            return {
                "doing": Roll(
                    model=cycle.model, version=version_of(record), group=settings.group,
                    seed=cycle.id, stages=settings.rollout_stages, watch_s=settings.watch_s,
                    comment=comment,
                ),
                "rolled_at": now,
            }  # fmt: skip
        case Arrow.WATCH:
            return {
                "doing": rollout_watch(record),
                "waits_for": f"{settings.watch_s:.0f} s without an alarm on the new version",
            }
        case _:
            assert_never(arrow)


def rollout_watch(record: CycleRecord) -> WatchRollout:
    cycle = record.cycle
    return WatchRollout(
        model=cycle.model, version=version_of(record), rollout=cycle.rollout,
        since=record.rolled_at or cycle.since,
    )  # fmt: skip
