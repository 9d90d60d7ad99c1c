"""From what a rollout commands to what its devices should have. Pure."""

from collections.abc import Callable
from typing import Final, Literal

from cloud.fleet.desired_state import UNNUMBERED, Desired
from cloud.fleet.documents import Baseline, Group, Profile, ProfileRef
from cloud.rollouts.documents import DeviceInRollout, ModelSubject, RolloutSpec
from cloud.rollouts.events import Order, Restore
from shared.fleet.desired import DesiredModel, DesiredProfile
from shared.fleet.profile import ProfileSettings, digest

Verb = Literal["start", "pause", "resume", "approve", "skip", "abort", "undo", "retry"]
NO_PROFILE: Final = "none"
"""Name of the profile that sets nothing: what a device that had none goes back to."""
Profiles = Callable[[str, int], Profile]


def order(
    command: Order, rollout: str, spec: RolloutSpec, profile: Profile | None
) -> Desired:  # fmt: skip
    """The rollout's subject for one device; `profile`: the subject's, where it is one."""
    subject = spec.subject
    if isinstance(subject, ModelSubject):
        return DesiredModel(
            generation=UNNUMBERED, model=subject.model, version=subject.version,
            manifest_sha256=subject.manifest_sha256, stage=command.stage, rollout=rollout,
            attempt=command.attempt, audit_share=spec.audit_share,
        )  # fmt: skip
    assert profile is not None
    return DesiredProfile(
        generation=UNNUMBERED, name=profile.name, version=profile.version, sha256=profile.sha256,
        settings=profile.settings, rollout=rollout, attempt=command.attempt,
    )  # fmt: skip


def restored(
    command: Restore,
    rollout: str,
    spec: RolloutSpec,
    device: DeviceInRollout,
    sha256: str | None,
    group: Group,
    profiles: Profiles,
) -> Desired | None:
    """What the device had before; `sha256`: of the manifest of that, where it is known.

    None: it had no model that is known, so there is nothing to go back to.
    """
    subject = spec.subject
    if isinstance(subject, ModelSubject):
        before = _model_before(device, sha256, group, subject)
        return None if before is None else DesiredModel(
            generation=UNNUMBERED, model=subject.model, version=before.version,
            manifest_sha256=before.manifest_sha256, rollout=rollout, attempt=device.attempt,
            undo=command.undo,
        )  # fmt: skip
    reference = profile_reference(device.before) or group.profile
    if reference is None or reference.name == NO_PROFILE:
        nothing = ProfileSettings()
        return DesiredProfile(
            generation=UNNUMBERED, name=NO_PROFILE, version=1, sha256=digest(nothing),
            settings=nothing, rollout=rollout, attempt=device.attempt,
        )  # fmt: skip
    profile = profiles(reference.name, reference.version)
    return DesiredProfile(
        generation=UNNUMBERED, name=profile.name, version=profile.version, sha256=profile.sha256,
        settings=profile.settings, rollout=rollout, attempt=device.attempt,
    )  # fmt: skip


def profile_before(reference: ProfileRef | None) -> str | None:
    """As a rollout keeps it."""
    return None if reference is None else f"{reference.name}/{reference.version}"


def profile_reference(before: str | None) -> ProfileRef | None:
    """The other way round."""
    if before is None:
        return None
    name, _, version = before.partition("/")
    return ProfileRef(name=name, version=int(version))


def _model_before(
    device: DeviceInRollout, sha256: str | None, group: Group, subject: ModelSubject
) -> Baseline | None:
    if device.before is not None and sha256 is not None:
        return Baseline(version=device.before, manifest_sha256=sha256)
    return group.models.get(subject.model)
