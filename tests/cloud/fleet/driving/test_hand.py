"""Rollouts over the real store: whatever is killed when, they come to the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cloud.fleet.documents import Baseline
from cloud.rollouts.documents import ModelSubject, Phase, RolloutStatus
from cloud.rollouts.placing import in_order
from shared.errors import Conflict, Unavailable, Unknown
from shared.fleet.desired import DesiredModel
from shared.fleet.profile import ProfileSettings
from simulations.light_devices.behaviour import Behaviour
from tests.cloud.fleet.driving.region import Killed, Region, spec
from tests.cloud.fleet.light import MODEL, NEW, OLD

COUNT = 4
SUCCEEDED, ROLLED_BACK = RolloutStatus.SUCCEEDED, RolloutStatus.ROLLED_BACK


@pytest.fixture
def region(tmp_path: Path) -> Iterator[Region]:
    made = Region(tmp_path, COUNT)
    yield made
    made.close()


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[Region]:
    """Where the new version fails its golden samples on each device."""
    made = Region(tmp_path, COUNT, {NEW.version: Behaviour(fault="golden")})
    yield made
    made.close()


OLDER = ModelSubject(model=MODEL, version="0.9.0", manifest_sha256="9" * 64)


def started(region: Region, **more: object) -> str:
    draft = region.hand.draft("r", spec(**more), "an operator", region.now)
    if region.tell(draft.id, "start").status is RolloutStatus.DRAFT:
        region.tell(draft.id, "start")  # it died with the first one
    return draft.id


def ordered_once(region: Region, rollout: str) -> bool:
    """Each device got one generation of the rollout, however often it was published."""
    made = {(device, one.generation) for device, one in region.orders if one.rollout == rollout}
    return sorted(device for device, _ in made) == [device.name for device in region.devices]


def test_a_good_version_reaches_all_and_is_their_baseline(region: Region) -> None:
    name = started(region)
    region.until(name, SUCCEEDED)
    assert {device.runs for device in region.devices} == {NEW}
    assert region.fleet.group("all").models[MODEL].version == NEW.version
    assert region.hand.count == 0


def test_a_broken_one_is_stopped_at_the_canary_and_taken_back(broken: Region) -> None:
    name = started(broken)
    view = broken.until(name, ROLLED_BACK)
    assert {device.runs for device in broken.devices} == {OLD}
    assert "golden" in view.why
    assert {device for device, _ in broken.orders} == {
        one.device for one in broken.fleet.rollout_devices(name)[0] if one.stage == 0
    }
    assert not broken.fleet.group("all").models


def test_undo_brings_back_the_version_and_hash_that_each_device_had(region: Region) -> None:
    name = started(region, watch_s=1000.0)
    for _ in range(20):
        region.turn()
    assert {device.runs for device in region.devices} == {NEW}
    region.tell(name, "undo")
    region.until(name, ROLLED_BACK)
    assert {device.runs for device in region.devices} == {OLD}
    last = dict(region.orders)
    assert all(isinstance(one, DesiredModel) and one.undo for one in last.values())


@pytest.mark.parametrize(("when", "first"), [("before", 2), ("after", 3)])
def test_a_death_at_any_commit_changes_nothing_in_the_end(
    tmp_path: Path, when: str, first: int
) -> None:
    """Every second commit each, from the one that starts it."""
    at, deaths = first, 0
    while True:
        (folder := tmp_path / str(at)).mkdir()
        region = Region(folder, 3)
        region.fleet.kill_at, region.fleet.kill_when = at, when  # type: ignore[assignment]  # of two
        name = started(region, wave_s=1.0, watch_s=0.0)
        region.until(name, SUCCEEDED)
        assert {device.runs for device in region.devices} == {NEW}
        assert ordered_once(region, name), at
        assert region.fleet.group("all").models[MODEL].version == NEW.version
        region.close()
        if not region.deaths:
            break
        deaths, at = deaths + 1, at + 2
    assert deaths > 2


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", [2, 3, 4, 5])
def test_a_death_at_any_commit_of_an_undo_leaves_nobody_on_the_bad_version(
    tmp_path: Path, when: str, at: int
) -> None:
    region = Region(tmp_path, 3, {NEW.version: Behaviour(fault="golden")})
    region.fleet.kill_at, region.fleet.kill_when = at, when  # type: ignore[assignment]  # of two
    name = started(region)
    region.until(name, ROLLED_BACK)
    assert {device.runs for device in region.devices} == {OLD}
    region.close()


def test_a_command_on_another_revision_is_refused_and_says_what_changed(region: Region) -> None:
    name = started(region)
    seen = region.fleet.rollout(name).revision
    region.tell(name, "pause", seen)
    with pytest.raises(Conflict, match=f"since revision {seen}: it is paused"):
        region.tell(name, "abort", seen)
    assert region.fleet.rollout(name).status is RolloutStatus.PAUSED


def test_a_command_for_nothing_is_unknown(region: Region) -> None:
    with pytest.raises(Unknown):
        region.tell("nothing", "start")


def test_a_second_rollout_of_the_model_in_the_group_is_refused_at_its_start(region: Region) -> None:
    started(region)
    other = region.hand.draft("other", spec(seed="t"), "an operator", region.now)
    with pytest.raises(Conflict, match="one at a time"):
        region.tell(other.id, "start")
    assert region.fleet.rollout("other").status is RolloutStatus.DRAFT
    region.turn()
    assert region.hand.count == 1


def test_none_starts_while_devices_of_another_still_go_back(region: Region) -> None:
    name = started(region, canary=1.0, watch_s=1000.0)
    for _ in range(5):
        region.turn()
    other = region.hand.draft("other", spec(seed="t", subject=OLDER), "an operator", region.now)
    assert region.tell(name, "undo").undoing
    with pytest.raises(Conflict, match="being undone"):
        region.tell(other.id, "start")
    region.until(name, ROLLED_BACK)


def test_an_aborted_one_is_not_undone_once_its_group_has_something_else(region: Region) -> None:
    name = started(region, canary=1.0, watch_s=1000.0)
    for _ in range(5):
        region.turn()
    assert region.tell(name, "abort").status is RolloutStatus.ABORTED
    baseline = Baseline(version=NEW.version, manifest_sha256=NEW.manifest_sha256)
    region.fleet.set_baseline("all", MODEL, baseline, "an operator", region.now)
    region.turn()
    published = len(region.orders)
    with pytest.raises(Conflict, match="something else since"):
        region.tell(name, "undo")
    region.turn()
    assert {device.runs for device in region.devices} == {NEW}
    assert len(region.orders) == published


def test_a_rollout_to_some_of_a_group_moves_nobody_else_when_it_succeeds(region: Region) -> None:
    old = Baseline(version=OLD.version, manifest_sha256=OLD.manifest_sha256)
    region.fleet.set_baseline("all", MODEL, old, "an operator", region.now)
    region.turn()
    name = started(region, selector="device/id=d00")
    region.until(name, SUCCEEDED)
    for _ in range(3):
        region.turn()
    runs = {device.name: device.runs for device in region.devices}
    assert runs.pop("d00") == NEW, "and it keeps it"
    assert set(runs.values()) == {OLD}
    assert region.fleet.group("all").models[MODEL] == old
    draft = region.hand.draft("rest", spec(seed="t"), "an operator", region.now)
    region.tell(draft.id, "start")
    region.until("rest", SUCCEEDED)
    assert {device.runs for device in region.devices} == {NEW}
    assert region.fleet.group("all").models[MODEL].version == NEW.version
    assert not region.fleet.parks(name)


def test_who_was_away_before_it_started_takes_no_place_of_those_that_install(
    region: Region,
) -> None:
    first = in_order([device.name for device in region.devices], "s")[0]
    away = next(device for device in region.devices if device.name == first)
    region.devices.remove(away)
    region.hear([away.will()])
    region.turn()
    name = started(region, canary=1.0, in_flight_max=1)
    for _ in range(10):
        region.turn()
    assert {device.runs for device in region.devices} == {NEW}
    assert [one.device for one in region.fleet.rollout_devices(name, Phase.ORDERED)[0]] == [first]


def test_a_draft_moves_the_devices_that_are_there_when_it_starts(region: Region) -> None:
    draft = region.hand.draft("r", spec(), "an operator", region.now)
    region.fleet.quarantine("d00", "it is on a bench", None, "an operator", region.now)
    region.tell(draft.id, "start")
    moved = [one.device for one in region.fleet.rollout_devices(draft.id)[0]]
    assert moved == ["d01", "d02", "d03"]


def test_no_device_is_refused(region: Region) -> None:
    with pytest.raises(Conflict):
        region.hand.draft("r", spec(selector="site=nowhere"), "an operator", region.now)


def test_a_quarantined_device_leaves_a_rollout_that_restarts_without_having_heard_it(
    region: Region,
) -> None:
    name = started(region, canary=1.0, watch_s=1000.0)
    region.fleet.quarantine("d00", "it is on a bench", None, "an operator", region.now)
    region.restart()  # before anybody told the rollout
    region.turn()
    (left,) = region.fleet.rollout_devices(name, Phase.LEFT)[0]
    assert left.device == "d00"
    assert "bench" in left.why


def test_a_store_that_was_away_costs_nothing(
    region: Region, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = started(region)
    with monkeypatch.context() as away:

        def save(*_: object) -> None:
            raise Unavailable("the disk is full")

        away.setattr(region.fleet, "save_rollouts", save)
        for _ in range(3):
            region.turn()
    region.until(name, SUCCEEDED)
    assert ordered_once(region, name)


def test_a_profile_goes_the_same_way_and_comes_back_to_none(region: Region) -> None:
    settings = ProfileSettings(telemetry_s=5.0)
    profile = region.fleet.push_profile("fast", 1, settings, "an operator", region.now)
    subject = {"kind": "profile", "name": "fast", "version": 1, "sha256": profile.sha256}
    name = started(region, subject=subject, watch_s=1000.0, samples_min=1, done_samples=1)
    for _ in range(15):
        region.turn()
    assert {one.name for _, one in region.orders} == {"fast"}  # type: ignore[union-attr]  # profiles
    region.tell(name, "undo")
    region.until(name, ROLLED_BACK)
    assert {one.name for _, one in dict(region.orders).items()} == {"none"}  # type: ignore[union-attr]


def test_newcomers_get_the_old_baseline_during_a_rollout_and_the_new_one_after_it(
    region: Region,
) -> None:
    old = Baseline(version=OLD.version, manifest_sha256=OLD.manifest_sha256)
    region.fleet.set_baseline("all", MODEL, old, "an operator", region.now)
    name = started(region)
    newcomer = type(region.devices[0])("new", MODEL, OLD, {}, seed=99)
    region.devices.append(newcomer)
    region.hear(newcomer.connected(region.now))
    region.turn()
    assert dict(region.orders)["new"].version == OLD.version
    region.until(name, SUCCEEDED)
    region.turn()
    assert newcomer.runs == NEW


def test_the_test_kills(region: Region) -> None:
    region.fleet.kill_at = region.fleet.commits + 1
    with pytest.raises(Killed):
        region.hand.draft("r", spec(), "an operator", region.now)
