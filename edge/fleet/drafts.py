"""What the device says of its model and its profile; without number and time yet. Pure."""

from edge.fleet.desired import pending
from edge.fleet.kept import Kept
from edge.updates.fleet_view import FleetView
from edge.updates.release import Release
from shared.fleet.desired import DesiredModel
from shared.fleet.reported import DevicePhase, ReportedModel, ReportedProfile

_WHY_CHARS = 500


def refusal(desired: DesiredModel, model: str, active: Release, *, updates: bool) -> str:
    """Why this device cannot follow at all; "" where it can. `updates`: whether it takes any."""
    if desired.model != model:
        return f"this device runs the model {model}; desired is {desired.model}"
    as_asked = (active.version, active.manifest_sha256) == (
        desired.version, desired.manifest_sha256,
    )  # fmt: skip
    if not updates and not as_asked:
        return "this device takes no updates: its settings have no [updates]"
    return ""


def standing(active: Release, desired: DesiredModel | None) -> FleetView:
    """Of a device without updates."""
    generation, rollout, attempt = 0, None, 0
    if desired is not None:
        generation, rollout, attempt = desired.generation, desired.rollout, desired.attempt
    return FleetView(
        DevicePhase.COMMITTED, active, None, "", golden_failed=False,
        generation=generation, rollout=rollout, attempt=attempt,
    )  # fmt: skip


def model_draft(
    kept: Kept,
    desired: DesiredModel | None,
    view: FleetView,
    model: str,
    variant: str,
    refused: str,
) -> ReportedModel:
    """`desired` was acted on; `variant` as `onnxruntime/int8`; `refused` as `refusal` gives it."""
    phase, why = view.phase, view.why
    generation, rollout, attempt = view.generation, view.rollout, view.attempt
    if kept.model_why:
        phase, why, generation = DevicePhase.FAILED, kept.model_why, kept.model_generation
    elif refused and desired is not None:
        phase, why = DevicePhase.FAILED, refused
        generation, rollout, attempt = desired.generation, desired.rollout, desired.attempt
    return ReportedModel(
        sequence=0, at=0, generation=generation, rollout=rollout, attempt=attempt, phase=phase,
        model=model, version=view.active.version, manifest_sha256=view.active.manifest_sha256,
        variant=variant[:40], candidate=None if view.candidate is None else view.candidate.version,
        why=why[:_WHY_CHARS], golden_failed=view.golden_failed and phase == DevicePhase.REJECTED,
    )  # fmt: skip


def profile_draft(kept: Kept) -> ReportedProfile:
    """Of a profile that is yet to be applied it says nothing."""
    applied, generation = kept.applied, kept.profile_generation
    if pending(kept):
        generation = 0 if applied is None else applied.generation
    asked = next(
        (p for p in (kept.profile, applied) if p is not None and p.generation == generation), None
    )
    return ReportedProfile(
        sequence=0, at=0, generation=generation,
        rollout=None if asked is None else asked.rollout,
        attempt=0 if asked is None else asked.attempt,
        name=None if applied is None else applied.name,
        version=0 if applied is None else applied.version,
        sha256=None if applied is None else applied.sha256,
        applied=not kept.profile_why, why=kept.profile_why[:_WHY_CHARS],
    )  # fmt: skip
