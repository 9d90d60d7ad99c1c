"""A recorded rollout's events once more through the real machine, with other criteria or risk.

What the devices did stays as it was recorded. So a run that stops earlier than the recorded one is
what would have been; one that does not stop is known up to where the recording stops.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from cloud.rollouts.documents import RolloutSpec, RolloutStatus
from cloud.rollouts.events import (
    Came,
    Event,
    Measured,
    Removed,
    Reported,
    Returned,
    Target,
    Ticked,
    Told,
    Went,
)
from cloud.rollouts.machine import Rollout
from shared.config import in_words
from shared.errors import Conflict, Malformed
from shared.fleet.reported import ReportedModel
from shared.fleet.telemetry import Telemetry
from simulations.fleet.agenda import EPOCH
from simulations.fleet.trace import read

OVER: Final = (RolloutStatus.ABORTED, RolloutStatus.ROLLED_BACK, RolloutStatus.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class Gated:
    status: str
    why: str
    stage: str
    decided_h: float | None
    """Hours from the rollout's start until it ended or turned back; None: neither."""
    ordered: int
    """Devices that had an order until then."""


def changed(spec: RolloutSpec, changes: Mapping[str, object]) -> RolloutSpec:
    """Raises `Malformed` in words for a member that is none or a value that does not fit."""
    try:
        return RolloutSpec.model_validate({**spec.model_dump(), **changes})
    except ValidationError as error:
        raise Malformed(f"policy: {in_words(error)}") from error


def gate(path: Path, changes: Mapping[str, object]) -> Gated:
    """Raises `Malformed` for a file without a rollout's creation."""
    rollout: Rollout | None = None
    tick_s, ticked = 5.0, 0.0
    for number, line in enumerate(read(path), start=1):
        where = f"{path}, line {number}"
        kind, at = line.get("kind"), _number(line.get("t", 0.0), where)
        if kind == "created" and rollout is None:
            rollout, tick_s = _created(line, changes, at, where)
            ticked = at
            continue
        if rollout is None:
            continue
        while ticked + tick_s <= at:
            ticked += tick_s
            rollout.step(Ticked(), EPOCH + ticked)
        if _decided(rollout):
            break
        event = _event(line, where)
        if event is not None:
            _step(rollout, event, EPOCH + at)
    if rollout is None:
        raise Malformed(
            f"{path}: no rollout was made in it; a trace of `hybridge simulate` has one"
        )
    return _gated(rollout, EPOCH + ticked)


def _decided(rollout: Rollout) -> bool:
    return rollout.status in OVER or rollout.undoing


def _step(rollout: Rollout, event: Event, now: float) -> None:
    if isinstance(event, Told):
        try:
            rollout.check(event, now)
        except Conflict:
            return  # it made sense in the recorded run
    rollout.step(event, now)


def _gated(rollout: Rollout, now: float) -> Gated:
    view = rollout.view(now)
    stage = view.stages[min(view.stage, len(view.stages) - 1)]
    decided = _decided(rollout)
    hours = (now - view.started_at) / 3600.0 if decided and view.started_at is not None else None
    queued = view.phases.get("queued", 0)
    return Gated(
        status="undoing" if view.undoing and view.status not in OVER else view.status.value,
        why=view.why,
        stage=f"{stage.kind} {stage.number}",
        decided_h=None if hours is None else round(hours, 3),
        ordered=sum(view.phases.values()) - queued,
    )


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Malformed(f"{where}: t is {value!r}; want seconds since the start")
    return float(value)


def _created(
    line: Mapping[str, object], changes: Mapping[str, object], at: float, where: str
) -> tuple[Rollout, float]:
    made = line.get("what")
    if not isinstance(made, dict):
        raise Malformed(f"{where}: want what was created")
    try:
        spec = changed(RolloutSpec.model_validate(made["spec"]), changes)
        targets = [Target(*target) for target in made["targets"]]
        tick_s = float(made["tick_s"])
    except (KeyError, TypeError, ValueError) as error:
        raise Malformed(f"{where}: {error}") from error
    return Rollout.plan_new(str(line.get("name")), spec, targets, "operator", EPOCH + at), tick_s


def _event(line: Mapping[str, object], where: str) -> Event | None:
    device = str(line.get("device", ""))
    try:
        match line.get("kind"):
            case "measured":
                return Measured(device, Telemetry.model_validate(line["telemetry"]))
            case "reported":
                return Reported(device, ReportedModel.model_validate(line["report"]))
            case "came":
                return Came(device)
            case "went":
                return Went(device)
            case "removed":
                return Removed(device, str(line.get("why", "")))
            case "returned":
                return Returned(device)
            case "told":
                return Told(line["what"], str(line["by"]))  # type: ignore[arg-type]  # checked by the machine
            case _:
                return None
    except (KeyError, ValidationError) as error:
        raise Malformed(f"{where}: {error}") from error
