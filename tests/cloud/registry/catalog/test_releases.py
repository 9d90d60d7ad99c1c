"""What a release, a retirement and a deletion do, and what they leave alone."""

import pytest

from cloud.registry.catalog.commands import QueueEvaluation, Reject, Release, Retire, SetModel
from cloud.registry.documents import Gate, State
from shared.bundle.manifest import Backbone
from shared.errors import Conflict
from tests.cloud.registry.catalog.world import World, new_id, passed, register, trust

DAY = 86_400.0


@pytest.fixture
def world():
    return World()


def states(world):
    return {one.version: str(one.state) for one in reversed(world.view.launched("m"))}


def test_a_release_becomes_the_current_one_and_is_numbered(world):
    world.released("1.0.0", "1.1.0")
    model = world.model()
    assert (model.current, model.number) == ("1.1.0", 2)
    (launch,) = world.version("1.1.0").launches
    assert (launch.number, launch.by, launch.comment, launch.trust_version) == (
        2, "ann", "it is good", 2,
    )  # fmt: skip


def test_a_version_that_is_no_candidate_is_not_released(world):
    world.do(SetModel("m", "ann", Gate(approval="rule")))
    world.do(register())
    with pytest.raises(Conflict, match="is trained; only one that is candidate or released"):
        world.release("1.0.0")
    world.do(passed(world.claim(), state="failed", why="f1 too low"))
    with pytest.raises(Conflict, match="is rejected"):
        world.release("1.0.0")


def test_a_release_that_lacks_something_is_refused_with_all_that_it_lacks(world):
    world.do(SetModel("m", "ann", Gate(approval="person")))
    world.candidate()
    with pytest.raises(Conflict, match=r"no approver has approved it.*no signed metadata names it"):
        world.do(Release("m", "1.0.0", "go", 1))
    world.approve()
    world.release("1.0.0")
    assert world.model().current == "1.0.0"


def test_a_release_signed_with_another_number_is_refused(world):
    world.released("1.0.0")
    world.candidate("1.1.0")
    with pytest.raises(Conflict, match="signed as release 7, but the next of m is 2"):
        world.release("1.1.0", number=7)
    world.release("1.1.0", number=2)


def test_the_current_release_is_not_released_again_but_an_older_one_may_be(world):
    world.released("1.0.0", "1.1.0")
    with pytest.raises(Conflict, match="is the current release already"):
        world.release("1.1.0")
    world.release("1.0.0")
    assert (world.model().current, world.model().number) == ("1.0.0", 3)
    assert [one.number for one in world.version("1.0.0").launches] == [1, 3]


def test_a_stale_look_releases_nothing(world):
    seen = world.candidate().revision
    world.do(SetModel("m", None, Gate(approval="person")))
    world.approve()
    with pytest.raises(Conflict, match="has changed since"):
        world.release("1.0.0", revision=seen)


def test_the_two_releases_before_the_current_one_stay_and_older_ones_retire(world):
    world.released("1.0.0", "1.1.0", "1.2.0")
    assert set(states(world).values()) == {"released"}
    world.released("1.3.0")
    assert states(world) == {
        "1.0.0": "retired", "1.1.0": "released", "1.2.0": "released", "1.3.0": "released",
    }  # fmt: skip
    assert world.model().current == "1.3.0"


def test_an_older_release_that_something_runs_stays(world):
    world.released("1.0.0", "1.1.0", "1.2.0")
    world.runs("1.0.0")
    world.released("1.3.0")
    assert states(world)["1.0.0"] == "released"
    world.view.runners.clear()
    world.released("1.4.0")
    assert states(world)["1.0.0"] == states(world)["1.1.0"] == "retired"


def test_retiring_the_current_release_falls_back_to_the_newest_left(world):
    world.released("1.0.0", "1.1.0", "1.2.0")
    world.runs("1.2.0")  # retiring is how devices are called back
    world.retire("1.2.0")
    assert world.model().current == "1.1.0"
    world.retire("1.0.0")
    assert world.model().current == "1.1.0"
    world.retire("1.1.0")
    assert world.model().current is None


def test_retiring_waits_for_the_metadata_that_leaves_it_out(world):
    world.released("1.0.0")
    with pytest.raises(Conflict, match="version 2 of model-m is not published"):
        world.do(Retire("m", "1.0.0", "bad", 2))
    world.do(trust(2))
    world.do(Retire("m", "1.0.0", "bad", 2))


def test_retiring_ends_what_measures_it(world):
    world.released("1.0.0")
    queued = new_id()
    world.do(QueueEvaluation("m", "1.0.0", queued))
    world.retire("1.0.0")
    assert world.view.evaluation(queued).state == "broken"


def test_a_released_version_is_neither_rejected_nor_deleted(world):
    world.released("1.0.0", "1.1.0")
    for version in ("1.0.0", "1.1.0"):
        with pytest.raises(Conflict, match="is released; only one that is"):
            world.do(Reject("m", version, "bad"))
        with pytest.raises(Conflict, match="is released; only one that is rejected or retired"):
            world.delete(version)


def test_a_version_that_something_runs_is_not_deleted(world):
    world.released("1.0.0", "1.1.0", "1.2.0", "1.3.0")
    for number in range(5):
        world.runs("1.0.0", f"dev-{number}")
    with pytest.raises(Conflict, match="still run by dev-0, dev-1, dev-2 and 2 more; move them"):
        world.delete("1.0.0")


def test_a_runner_that_was_not_seen_for_long_holds_nothing(world):
    world.released("1.0.0", "1.1.0", "1.2.0", "1.3.0")
    world.runs("1.0.0")
    world.now += 29 * DAY
    with pytest.raises(Conflict, match="still run"):
        world.delete("1.0.0")
    world.now += 2 * DAY
    world.delete("1.0.0")
    assert world.version("1.0.0").deleted


@pytest.mark.parametrize("skew", [-DAY, DAY])
def test_a_clock_that_is_a_day_off_frees_no_version_in_use(world, skew):
    world.released("1.0.0", "1.1.0", "1.2.0", "1.3.0")
    world.runs("1.0.0")
    world.now += skew
    with pytest.raises(Conflict, match="still run"):
        world.delete("1.0.0")


def test_the_two_releases_before_the_current_one_are_kept_even_when_retired(world):
    world.released("1.0.0", "1.1.0", "1.2.0")
    world.retire("1.0.0")
    world.retire("1.1.0")
    for version in ("1.0.0", "1.1.0"):
        with pytest.raises(Conflict, match="one of the 2 releases before the current one"):
            world.delete(version)
    world.released("1.3.0")
    world.delete("1.0.0")
    with pytest.raises(Conflict, match="before the current one"):
        world.delete("1.1.0")


def test_a_retired_release_above_the_current_one_may_be_deleted(world):
    world.released("1.0.0", "1.1.0", "1.2.0")
    world.retire("1.2.0")
    world.delete("1.2.0")
    assert world.version("1.2.0").deleted


def test_without_a_current_release_the_newest_that_were_are_kept(world):
    world.released("1.0.0", "1.1.0", "1.2.0", "1.3.0")
    for version in ("1.1.0", "1.2.0", "1.3.0"):
        world.retire(version)
    for version in ("1.1.0", "1.2.0", "1.3.0"):
        with pytest.raises(Conflict, match="before the current one"):
            world.delete(version)
    world.delete("1.0.0")


def test_a_deleted_version_stays_taken_with_its_history(world):
    world.do(SetModel("m", "ann", Gate(approval="rule")))
    world.do(register())
    world.do(passed(world.claim(), state="failed", why="f1 too low"))
    world.delete("1.0.0")
    assert world.delete("1.0.0") == []
    version = world.version()
    assert (version.state, version.why, version.deleted) == (State.REJECTED, "f1 too low", True)
    with pytest.raises(Conflict, match="already with its files deleted"):
        world.do(register())


def test_a_head_is_released_after_its_backbone_and_holds_it(world):
    backbone = Backbone(name="m", version="1.0.0")
    world.candidate("1.0.0")
    head = world.candidate("1.0.0", "head", backbone=backbone)
    world.do(trust(1, "head"))
    release = Release("head", "1.0.0", "go", 1)
    with pytest.raises(Conflict, match=r"its backbone m 1\.0\.0 is candidate; release it first"):
        world.do(release)
    world.release("1.0.0")
    world.do(release)
    assert head.backbone == backbone
    world.released("1.1.0", "1.2.0", "1.3.0")
    assert world.version("1.0.0").state is State.RETIRED
    with pytest.raises(Conflict, match=r"is the backbone of head 1\.0\.0; delete these first"):
        world.delete("1.0.0")
