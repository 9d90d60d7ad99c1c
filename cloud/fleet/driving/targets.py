"""Which devices a rollout moves, and what they had before. Pure."""

from collections.abc import Iterable, Iterator

from cloud.fleet.desired_state import Desired
from cloud.fleet.documents import Device, ProfileRef
from cloud.fleet.driving.commands import NO_PROFILE, profile_before
from cloud.rollouts.documents import ModelSubject, ProfileSubject, RolloutSpec
from cloud.rollouts.events import Came, Event, Removed, Reported, Returned, Target, Went
from shared.fleet.desired import DesiredProfile


def targets(spec: RolloutSpec, devices: Iterable[Device]) -> Iterator[Target]:
    """Of the group's devices that the selector takes: those which can take the subject and do not
    have it. Revoked and quarantined ones are left out, and those that never said what they run.
    """
    for device in devices:
        if kept_out(device) is None:
            subject = spec.subject
            if isinstance(subject, ModelSubject):
                yield from _of_model(subject, device)
            else:
                yield from _of_profile(subject, device)


def kept_out(device: Device) -> str | None:
    """Why no rollout may move this device now; None: one may."""
    if device.revoked_at is not None:
        return "revoked"
    if device.quarantine is not None:
        return f"quarantined: {device.quarantine.why}"[:300]
    return None


def events_of(device: Device) -> Iterator[Event]:
    """What the store has of a device, as events: what a rollout knows already changes nothing."""
    why = kept_out(device)
    yield Returned(device.id) if why is None else Removed(device.id, why)
    if device.presence.since is not None:
        yield Came(device.id) if device.presence.online else Went(device.id)
    for report in (device.model, device.profile):
        if report is not None:
            yield Reported(device.id, report)


def _of_model(subject: ModelSubject, device: Device) -> Iterator[Target]:
    runs, wanted = device.model, device.desired_model
    if runs is None or runs.model != subject.model:
        return
    has_it = (runs.version, runs.manifest_sha256) == (subject.version, subject.manifest_sha256)
    if has_it and (wanted is None or wanted.version == subject.version):
        return
    yield Target(device.id, runs.version, runs.manifest_sha256, _zone(device))


def _of_profile(subject: ProfileSubject, device: Device) -> Iterator[Target]:
    wanted, said = device.desired_profile, device.profile
    if (
        wanted is not None and wanted.sha256 == subject.sha256
        and said is not None and said.sha256 == subject.sha256
    ):  # fmt: skip
        return
    yield Target(device.id, profile_before(_profile(wanted)), None, _zone(device))


def _profile(wanted: Desired | None) -> ProfileRef | None:
    if not isinstance(wanted, DesiredProfile) or wanted.name == NO_PROFILE:
        return None
    return ProfileRef(name=wanted.name, version=wanted.version)


def _zone(device: Device) -> str:
    return "UTC" if device.inventory is None else device.inventory.time_zone
