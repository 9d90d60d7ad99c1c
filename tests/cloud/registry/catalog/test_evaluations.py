"""The queue of evaluations: one at a time has each, and whoever lost it cannot end it."""

import pytest

from cloud.registry.catalog.commands import (
    ClaimEvaluation,
    QueueEvaluation,
    RenewEvaluation,
    SetModel,
)
from cloud.registry.catalog.evaluations import LEASE_S_MAX
from cloud.registry.documents import Gate, RuleResult, State
from shared.errors import Conflict, Malformed, Overloaded, Unknown
from tests.cloud.registry.catalog.world import HARDWARE, World, new_id, passed, register

DAY = 86_400.0


@pytest.fixture
def world():
    world = World()
    world.do(SetModel("m", "ann", Gate(approval="rule")))
    world.do(register())
    return world


def test_a_claim_takes_the_oldest_and_the_version_is_evaluating(world):
    world.do(register("1.1.0"))
    claimed = world.claim()
    assert (claimed.version, claimed.state, claimed.evaluator, claimed.attempts) == (
        "1.0.0", "running", "w", 1,
    )  # fmt: skip
    assert world.version().state is State.EVALUATING
    assert world.claim().version == "1.1.0"
    assert world.do(ClaimEvaluation("w", 60)) == []


def test_what_passed_is_a_candidate_with_its_figures(world):
    world.do(passed(world.claim()))
    version = world.version()
    assert (version.state, version.why) == (State.CANDIDATE, "all rules hold")
    evaluation = world.view.evaluation(version.evaluation)
    assert evaluation.metrics == {"onnxruntime/int8": {"accuracy": 0.9}}
    assert (evaluation.hardware, evaluation.lease_until) == (HARDWARE, None)


def test_what_failed_is_rejected_with_the_reason(world):
    world.do(passed(world.claim(), state="failed", why="f1 0.71 < 0.8"))
    assert (world.version().state, world.version().why) == (State.REJECTED, "f1 0.71 < 0.8")


def test_what_broke_says_nothing_about_the_version(world):
    world.do(passed(world.claim(), state="broken", why="disk full", metrics={}))
    assert (world.version().state, world.version().evaluation) == (State.TRAINED, None)
    world.do(QueueEvaluation("m", "1.0.0", new_id()))
    world.do(passed(world.claim()))
    assert world.version().state is State.CANDIDATE


def test_an_evaluation_ends_once(world):
    claimed = world.claim()
    world.do(passed(claimed))
    with pytest.raises(Conflict, match="is passed"):
        world.do(passed(claimed, state="failed"))
    assert world.version().state is State.CANDIDATE


def test_a_dead_evaluators_claim_is_taken_over_and_the_dead_one_ends_nothing(world):
    dead = world.claim("first", 60)
    world.now += 59
    assert world.do(ClaimEvaluation("second", 60)) == []
    world.now += 2
    alive = world.claim("second", 60)
    assert (alive.id, alive.attempts) == (dead.id, 2)
    with pytest.raises(Conflict, match="was taken over by second"):
        world.do(passed(dead))
    world.do(passed(alive))


def test_of_two_claims_of_one_name_the_later_one_counts(world):
    dead = world.claim("w", 60)
    world.now += 61
    alive = world.claim("w", 60)
    with pytest.raises(Conflict, match="claim 2"):
        world.do(passed(dead))
    world.do(passed(alive))


def test_attempts_are_bounded_and_the_next_one_in_line_is_claimed(world):
    world.do(register("1.1.0"))
    for _ in range(3):
        assert world.claim().version == "1.0.0"
        world.now += 61
    assert world.claim("w", 60).version == "1.1.0"
    broken = [one for one in world.view.rows.values() if getattr(one, "state", "") == "broken"]
    assert "3 evaluators began it and none ended it; the last was w" in broken[0].why
    assert world.version().state is State.TRAINED


@pytest.mark.parametrize("lease_s", [0, -1, float("nan"), float("inf"), LEASE_S_MAX + 1])
def test_a_lease_is_bounded(world, lease_s):
    with pytest.raises(Malformed, match="lease_s is"):
        world.do(ClaimEvaluation("w", lease_s))


def test_a_renewal_is_for_who_has_the_claim(world):
    dead = world.claim("first", 60)
    assert world.do(RenewEvaluation(dead.id, "first", 1, 60)) == []
    with pytest.raises(Conflict, match="taken over"):
        world.do(RenewEvaluation(dead.id, "second", 1, 60))
    with pytest.raises(Malformed, match="lease_s is"):
        world.do(RenewEvaluation(dead.id, "first", 1, 1e9))
    world.now += 61
    world.claim("second", 60)
    with pytest.raises(Conflict, match="taken over by second"):
        world.do(RenewEvaluation(dead.id, "first", 1, 60))
    with pytest.raises(Unknown, match="there is no evaluation"):
        world.do(RenewEvaluation("no", "first", 1, 60))


@pytest.mark.parametrize("skew", [-DAY, DAY])
def test_a_lease_that_a_clock_a_day_off_gave_is_over_when_the_clock_is_right_again(world, skew):
    world.now += skew
    world.claim("first", 60)
    world.now -= skew
    second = world.claim("second", 60)
    assert second.attempts == 2
    world.do(passed(second))
    assert world.version().state is State.CANDIDATE
    assert [entry.seq for entry in world.log] == list(range(1, len(world.log) + 1))


@pytest.mark.parametrize(
    ("update", "words"),
    [
        ({"state": "queued"}, "cannot end as 'queued'"),
        ({"metrics": {}}, "without hardware or metrics"),
        (
            {"rules": (RuleResult(rule="f1 > 1", variant="v", holds=False, why="0 > 1"),)},
            "'f1 > 1' does not hold",
        ),
    ],
)
def test_what_says_that_it_passed_shows_it(world, update, words):
    with pytest.raises(Malformed, match=words):
        world.do(passed(world.claim(), **update))
    assert world.version().state is State.EVALUATING


def test_one_evaluation_of_a_version_waits_at_a_time_and_ids_are_used_once(world):
    with pytest.raises(Conflict, match=r"has evaluation .* queued already"):
        world.do(QueueEvaluation("m", "1.0.0", new_id()))
    claimed = world.claim()
    world.do(passed(claimed))
    with pytest.raises(Conflict, match="use a new id"):
        world.do(QueueEvaluation("m", "1.0.0", claimed.id))
    with pytest.raises(Malformed, match="is not a UUID"):
        world.do(QueueEvaluation("m", "1.0.0", "x"))


def test_ended_versions_are_not_measured(world):
    world.do(passed(world.claim(), state="failed", why="bad"))
    with pytest.raises(Conflict, match="is rejected: bad; register a new version"):
        world.do(QueueEvaluation("m", "1.0.0", new_id()))


def test_the_queue_is_bounded():
    world = World(evaluations_open_max=1)
    world.do(SetModel("m", "ann", Gate()))
    world.do(register())
    with pytest.raises(Overloaded, match="1 evaluations wait or run"):
        world.do(register("1.1.0"))
    assert world.view.version("m", "1.1.0") is None


def test_a_candidate_that_fails_when_measured_again_cannot_be_released(world):
    world.do(passed(world.claim()))
    world.do(QueueEvaluation("m", "1.0.0", new_id()))
    world.do(passed(world.claim(), state="failed", why="p95 too high"))
    assert world.version().state is State.CANDIDATE
    with pytest.raises(Conflict, match="its newest evaluation failed: p95 too high"):
        world.release("1.0.0")
