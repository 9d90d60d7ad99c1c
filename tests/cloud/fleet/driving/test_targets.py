"""Whom a rollout moves, and what they go back to."""

import pytest

from cloud.fleet.documents import Device, Group, Profile, ProfileRef, Quarantine
from cloud.fleet.driving.commands import NO_PROFILE, order, profile_reference, restored
from cloud.fleet.driving.events import Pending
from cloud.fleet.driving.targets import targets
from cloud.rollouts.documents import DeviceInRollout, Phase, ProfileSubject
from cloud.rollouts.events import Came, Order, Restore, Target
from shared.fleet.desired import DesiredModel, DesiredProfile
from shared.fleet.profile import ProfileSettings, digest
from shared.fleet.reported import DevicePhase, ReportedModel, ReportedProfile
from tests.cloud.fleet.driving.region import spec
from tests.cloud.fleet.light import MODEL, NEW, OLD

SETTINGS = ProfileSettings(telemetry_s=5.0)
PROFILE = Profile(
    name="fast", version=2, sha256=digest(SETTINGS), settings=SETTINGS, pushed_by="x", pushed_at=0.0
)
OF_PROFILE = spec(
    subject=ProfileSubject(name=PROFILE.name, version=PROFILE.version, sha256=PROFILE.sha256)
)
ALL = Group(name="all")


def runs(version: str = OLD.version, sha256: str = OLD.manifest_sha256, model: str = MODEL):
    return ReportedModel(
        sequence=1, at=0.0, phase=DevicePhase.COMMITTED, model=model, version=version,
        manifest_sha256=sha256,
    )  # fmt: skip


def names(*devices: Device) -> list[str]:
    return [one.device for one in targets(spec(), devices)]


def test_what_it_goes_back_to_is_what_it_says_to_run() -> None:
    (one,) = targets(spec(), [Device(id="a", model=runs())])
    assert one == Target("a", OLD.version, OLD.manifest_sha256, "UTC")


@pytest.mark.parametrize(
    "device",
    [
        Device(id="a"),
        Device(id="a", model=runs(model="another")),
        Device(id="a", model=runs(NEW.version, NEW.manifest_sha256)),
        Device(id="a", model=runs(), revoked_at=1.0),
        Device(id="a", model=runs(), quarantine=Quarantine(since=1.0, why="bench")),
    ],
    ids=["said nothing", "another model", "has it", "revoked", "quarantined"],
)
def test_left_out(device: Device) -> None:
    assert names(device) == []


def test_the_version_with_another_hash_is_not_the_version() -> None:
    assert names(Device(id="a", model=runs(NEW.version, "c" * 64))) == ["a"]


def test_who_runs_it_and_should_not_is_moved() -> None:
    wanted = DesiredModel(
        generation=1, model=MODEL, version=OLD.version, manifest_sha256=OLD.manifest_sha256
    )
    device = Device(id="a", model=runs(NEW.version, NEW.manifest_sha256), desired_model=wanted)
    assert names(device) == ["a"]


def test_a_profile_is_for_all_who_do_not_have_it() -> None:
    wanted = DesiredProfile(
        generation=1, name="fast", version=2, sha256=PROFILE.sha256, settings=SETTINGS
    )
    has = ReportedProfile(
        sequence=1, at=0.0, generation=1, name="fast", version=2, sha256=PROFILE.sha256
    )
    devices = [
        Device(id="a"),
        Device(id="b", desired_profile=wanted),
        Device(id="c", desired_profile=wanted, profile=has),
    ]
    assert list(targets(OF_PROFILE, devices)) == [
        Target("a", None, None, "UTC"), Target("b", "fast/2", None, "UTC")
    ]  # fmt: skip


def in_rollout(before: str | None) -> DeviceInRollout:
    return DeviceInRollout(device="a", stage=0, phase=Phase.UNDOING, attempt=3, before=before)


def test_a_restore_names_the_version_its_hash_and_the_attempt() -> None:
    back = restored(
        Restore("a", undo=True), "r", spec(), in_rollout(OLD.version), OLD.manifest_sha256, ALL,
        lambda *_: PROFILE,
    )  # fmt: skip
    assert back == DesiredModel(
        generation=1, model=MODEL, version=OLD.version, manifest_sha256=OLD.manifest_sha256,
        rollout="r", attempt=3, undo=True,
    )  # fmt: skip


def test_without_anything_before_and_a_baseline_there_is_nothing_to_restore() -> None:
    none = restored(
        Restore("a", undo=True), "r", spec(), in_rollout(None), None, ALL, lambda *_: PROFILE
    )
    assert none is None


@pytest.mark.parametrize("before", ["fast/2", None])
def test_a_profile_is_restored_to_the_one_before_or_to_the_groups(before: str | None) -> None:
    group = Group(name="all", profile=ProfileRef(name="fast", version=2))
    back = restored(
        Restore("a", undo=True), "r", OF_PROFILE, in_rollout(before), None, group,
        lambda *_: PROFILE,
    )  # fmt: skip
    assert isinstance(back, DesiredProfile)
    assert (back.name, back.version, back.settings) == ("fast", 2, SETTINGS)


def test_or_to_one_that_sets_nothing() -> None:
    back = restored(
        Restore("a", undo=True), "r", OF_PROFILE, in_rollout(None), None, ALL, lambda *_: PROFILE
    )
    assert isinstance(back, DesiredProfile)
    assert (back.name, back.settings) == (NO_PROFILE, ProfileSettings())
    assert back.sha256 == digest(ProfileSettings())


def test_an_order_carries_its_stage_attempt_and_audits() -> None:
    one = order(Order("a", "shadow", 2), "r", spec(audit_share=0.25), None)
    assert isinstance(one, DesiredModel)
    assert (one.stage, one.attempt, one.rollout, one.audit_share) == ("shadow", 2, "r", 0.25)


def test_a_reference_goes_there_and_back() -> None:
    assert profile_reference("fast/2") == ProfileRef(name="fast", version=2)
    assert profile_reference(None) is None


def test_events_without_room_are_said_to_be_missed_once() -> None:
    pending = Pending(2)
    for name in "abc":
        pending.put(Came(name))
    assert pending.take() == ([Came("a"), Came("b")], True)
    assert pending.dropped == 1
    assert pending.take() == ([], False)
