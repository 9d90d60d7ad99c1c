"""What a file changes of a fleet; applied twice, nothing."""

import pytest

from cloud.cli.apply_diff import (
    Change,
    Found,
    PushProfile,
    PutGroup,
    RemoveGroup,
    SetBaseline,
    SetLabels,
    SetProfile,
    StartRollout,
    Stays,
    changes,
    is_nothing,
)
from cloud.cli.apply_file import read
from cloud.fleet.documents import Baseline, Device, Group, Profile, ProfileRef
from cloud.rollouts.documents import RolloutStatus
from shared.errors import Conflict, Unknown
from shared.fleet.profile import ProfileSettings, digest
from tests.cloud.cli.rollout_views import HASH, profile_spec, spec, view

SETTINGS = ProfileSettings(threshold="strict")
CAMERA = Profile(
    name="camera", version=3, sha256=digest(SETTINGS), settings=SETTINGS, pushed_by="anna",
    pushed_at=0,
)  # fmt: skip
LYON = Group(name="lyon", selector="site=lyon", priority=10, revision=4)


def differing(text: str, found: Found, *, prune: bool = False) -> list[Change]:
    return changes(read(text.encode(), "f"), found, prune=prune)


def lines(found: list[Change]) -> list[str]:
    return [" ".join(one.line) for one in found]


def test_all_of_a_new_fleet_in_the_order_in_which_it_is_needed() -> None:
    text = """
rollouts: [{model: fashion-edge, version: 1.4.0, group: lyon}]
groups:
  lyon: {selector: site=lyon, priority: 10, profile: {name: camera, version: 3},
         models: {fashion-edge: {version: 1.3.0}}}
devices: {cam-1: {labels: {site: lyon}}}
profiles: {camera: {3: {threshold: strict}}}
"""
    device = Device(id="cam-1", labels={"site": "paris", "spare": "yes"}, revision=7)
    found = differing(text, Found(devices={"cam-1": device}))
    assert [type(one) for one in found] == [
        PushProfile, PutGroup, SetLabels, SetBaseline, SetProfile, StartRollout,
    ]  # fmt: skip
    assert lines(found) == [
        "+ profile camera 3: threshold strict",
        "+ group lyon: selector site=lyon, priority 10",
        "~ device cam-1: -spare, site=paris -> lyon",
        "+ group lyon: fashion-edge 1.3.0, without a rollout",
        "+ group lyon: profile camera 3, without a rollout",
        "+ rollout fashion-edge 1.4.0 -> group lyon",
    ]


def test_the_same_a_second_time_is_nothing() -> None:
    text = """
groups:
  all: {}
  lyon: {selector: site=lyon, priority: 10, profile: {name: camera, version: 3},
         models: {fashion-edge: {version: 1.3.0}}}
devices: {cam-1: {labels: {site: lyon}}}
profiles: {camera: {3: {threshold: strict}}}
rollouts:
  - {model: fashion-edge, version: 1.4.0, group: lyon}
  - {profile: camera, version: 4, group: lyon}
"""
    group = LYON.model_copy(
        update={
            "models": {"fashion-edge": Baseline(version="1.3.0", manifest_sha256=HASH)},
            "profile": ProfileRef(name="camera", version=3),
        }
    )
    found = Found(
        groups={"lyon": group}, profiles=[CAMERA],
        devices={"cam-1": Device(id="cam-1", labels={"site": "lyon"})},
        rollouts=[
            view(), view(spec=profile_spec("camera", 4), status=RolloutStatus.SUCCEEDED),
        ],
    )  # fmt: skip
    assert differing(text, found) == []
    assert is_nothing([])


def test_a_group_that_changed() -> None:
    text = "groups: {lyon: {priority: 20, profile: {name: camera, version: 4}}}"
    group = LYON.model_copy(update={"profile": ProfileRef(name="camera", version=3)})
    found = differing(text, Found(groups={"lyon": group}))
    assert lines(found) == [
        "~ group lyon: selector site=lyon -> every device, priority 10 -> 20",
        "~ group lyon: profile camera 3 -> camera 4, without a rollout",
    ]
    assert isinstance(found[1], SetProfile)
    assert found[1].revision == 4


def test_a_baseline_with_another_hash_is_another() -> None:
    text = "groups: {lyon: {selector: site=lyon, priority: 10, models: {m: {version: 1.0.0, manifest_sha256: %s}}}}"
    group = LYON.model_copy(
        update={"models": {"m": Baseline(version="1.0.0", manifest_sha256=HASH)}}
    )
    assert differing(text % HASH, Found(groups={"lyon": group})) == []
    (found,) = differing(text % ("cd" * 32), Found(groups={"lyon": group}))
    assert found.line == ("~", "group lyon: m 1.0.0 -> 1.0.0, without a rollout")


def test_groups_that_the_file_does_not_name_go_with_prune_alone() -> None:
    found = Found(groups={"lyon": LYON, "all": Group(name="all"), "old": Group(name="old")})
    text = "groups: {lyon: {selector: site=lyon, priority: 10}}"
    assert differing(text, found) == []
    pruned = differing(text, found, prune=True)
    assert pruned == [RemoveGroup(found.groups["old"])]
    assert pruned[0].line[0] == "-"


def test_a_profiles_version_never_changes() -> None:
    with pytest.raises(Conflict, match="profile camera 3: is there with other settings"):
        differing("profiles: {camera: {3: {threshold: loose}}}", Found(profiles=[CAMERA]))


def test_a_device_that_is_not_enrolled_is_refused_before_anything_is_done() -> None:
    text = "groups: {new: {}}\ndevices: {cam-9: {labels: {}}}"
    with pytest.raises(Unknown, match="device cam-9"):
        differing(text, Found())


ROLLOUT = "rollouts: [{model: fashion-edge, version: 1.4.0, group: lyon}]"


@pytest.mark.parametrize("status", ["running", "paused", "succeeded"])
def test_a_rollout_that_runs_or_has_succeeded_is_there(status: str) -> None:
    assert differing(ROLLOUT, Found(rollouts=[view(status=status)])) == []


def test_a_draft_of_it_is_started() -> None:
    draft = view(status=RolloutStatus.DRAFT)
    (found,) = differing(ROLLOUT, Found(rollouts=[draft]))
    assert isinstance(found, StartRollout)
    assert found.draft == draft
    assert found.line[1].endswith("draft -> started")


@pytest.mark.parametrize("status", ["aborted", "rolled_back"])
def test_a_rollout_that_was_stopped_is_not_started_again_unasked(status: str) -> None:
    found = Found(rollouts=[view(status=status, why="disagreement")])
    stays = differing(ROLLOUT, found)
    assert [type(one) for one in stays] == [Stays]
    assert is_nothing(stays)
    assert stays[0].line[0] == "!"
    assert "(disagreement)" in stays[0].line[1]
    (again,) = differing(ROLLOUT.replace("lyon}", "lyon, seed: again}"), found)
    assert isinstance(again, StartRollout)


def test_a_rollout_of_another_group_or_version_is_another() -> None:
    for other in (spec(group="paris"), spec(version="1.5.0"), spec(selector="site=lyon")):
        (found,) = differing(ROLLOUT, Found(rollouts=[view(spec=other)]))
        assert isinstance(found, StartRollout)


def test_a_group_that_has_the_version_needs_no_rollout() -> None:
    has = Baseline(version="1.4.0", manifest_sha256=HASH)
    group = LYON.model_copy(update={"models": {"fashion-edge": has}})
    assert differing(ROLLOUT, Found(groups={"lyon": group})) == []
    older = group.model_copy(
        update={"models": {"fashion-edge": has.model_copy(update={"version": "1.3.0"})}}
    )
    assert len(differing(ROLLOUT, Found(groups={"lyon": older}))) == 1
    profile = LYON.model_copy(update={"profile": ProfileRef(name="camera", version=3)})
    text = "rollouts: [{profile: camera, version: 3, group: lyon}]"
    assert differing(text, Found(groups={"lyon": profile})) == []
