"""The machine on a device that follows a fleet."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.updates.events import (
    Activate,
    Downloaded,
    Event,
    Failed,
    Fetch,
    Followed,
    HoldReleased,
    Interrupted,
    Lasted,
    NotRestored,
    Offered,
    Probed,
    Prune,
    Rejected,
    Restore,
    Restored,
    Resumed,
    RetryAsked,
    RolledBack,
    Stage,
    Started,
    Stopped,
    Tried,
    Try,
    Unseen,
    Verified,
)
from edge.updates.fleet_view import OPERATOR, view_of
from edge.updates.machine import TRIES_MAX, step
from edge.updates.release import Release
from edge.updates.starting import STARTS_MAX, Fault, begin, fall_back
from edge.updates.state import KEPT, REFUSED_MAX, WAITING, WHY_MAX, State, first_state
from edge.updates.target import Target
from shared.fleet.reported import DevicePhase
from tests.edge.updates.test_machine import FACTORY, R1, R2, R3, after, release

ALL = (R1, R2, R3)


def target(wanted: Release, generation: int, **changes: Any) -> Target:
    return replace(Target(generation, wanted.version, wanted.manifest_sha256), **changes)


def follows(wanted: Release, generation: int, **changes: Any) -> Followed:
    return Followed(target(wanted, generation, **changes), FACTORY)


def new() -> State:
    return replace(first_state("m", FACTORY), follows=True)


def probed(state: State) -> State:
    g = state.generation
    return after(state, Downloaded(g), Verified(g), Probed(g, "fast"))


def runs(wanted: Release, state: State, generation: int) -> State:
    """Goes the whole way, live."""
    state = probed(after(state, follows(wanted, generation), Offered(ALL)))
    return after(state, Tried(state.generation, "agrees"))


def phase(state: State) -> DevicePhase:
    return view_of(state, state.active).phase


def test_nothing_is_taken_before_the_fleet_has_asked_for_something() -> None:
    state = new()
    assert step(state, Offered(ALL)) == (state, ())
    assert view_of(state, FACTORY).generation == 0


def test_the_release_that_the_fleet_names_is_taken_and_no_other() -> None:
    state = after(new(), follows(R2, 7, rollout="r-1"))
    assert phase(state) == DevicePhase.ACCEPTED
    state, commands = step(state, Offered(ALL))
    assert state.candidate == R2
    assert Fetch(state.generation, R2) in commands
    assert phase(state) == DevicePhase.DOWNLOADING
    state = after(probed(state), Tried(state.generation, "agrees"))
    view = view_of(state, state.active)
    assert (view.phase, view.active, view.candidate) == (DevicePhase.COMMITTED, R2, None)
    assert (view.generation, view.rollout, view.attempt) == (7, "r-1", 1)


def test_a_lower_number_comes_by_the_fleets_word_only() -> None:
    state = after(runs(R3, new(), 1), follows(R1, 2), Offered(ALL))
    assert state.candidate == R1
    newest = replace(runs(R3, new(), 1), follows=False, target=None)
    assert after(newest, Offered(ALL)).candidate is None


def test_other_bytes_under_the_same_version_are_not_it() -> None:
    other = Release(R2.version, "f" * 64, 100, 9)
    state = after(new(), follows(R2, 1), Offered((other,)))
    assert (state.candidate, state.phase) == (None, "failed")
    renamed = Release("9.9.9", R2.manifest_sha256, 100, 9)
    assert after(new(), follows(R2, 1), Offered((renamed,))).candidate is None


@pytest.mark.parametrize("generation", [3, 4])
def test_an_older_generation_and_a_copy_change_nothing(generation: int) -> None:
    state = after(new(), follows(R2, 4), Offered(ALL))
    assert step(state, follows(R3, generation)) == (state, ())
    assert step(state, follows(R2, generation)) == (state, ())


def test_generations_go_on_after_the_fleet_asked_for_nothing() -> None:
    state = after(new(), follows(R2, 4), Offered(ALL), Followed(None))
    assert (state.candidate, state.target) == (None, None)
    assert step(state, Followed(None)) == (state, ())
    assert step(state, follows(R3, 3)) == (state, ())
    assert after(state, follows(R2, 4), Offered(ALL)).candidate == R2


def test_what_is_not_released_here_yet_is_waited_for_and_then_a_failure() -> None:
    state = after(new(), follows(R3, 1), Offered((R1,), patient=True))
    assert phase(state) == DevicePhase.ACCEPTED
    assert "does not name; release it" in view_of(state, FACTORY).why
    late = after(state, Offered((R1,)))
    assert phase(late) == DevicePhase.FAILED
    assert step(late, Offered((R1,))) == (late, ())
    assert after(late, Offered(ALL)).candidate == R3  # it was only late


def test_what_answers_already_is_committed_at_once() -> None:
    state = after(new(), follows(R2, 1), Offered(ALL))
    state, commands = step(state, follows(FACTORY, 2))
    assert (phase(state), state.candidate) == (DevicePhase.COMMITTED, None)
    assert Prune(state.generation) in commands
    assert phase(after(new(), follows(FACTORY, 1, stage="shadow"))) == DevicePhase.COMMITTED
    undone = after(new(), follows(FACTORY, 1, undo=True))
    assert (undone.phase, undone.candidate) == ("active", None)  # it is not opened once more


def test_a_look_that_fails_for_long_is_a_failure_of_what_is_wanted_and_of_nothing_else() -> None:
    state = after(new(), follows(R2, 1))
    late = after(state, Unseen("no link"))
    assert (phase(late), view_of(late, FACTORY).why) == (DevicePhase.FAILED, "no link")
    assert step(late, Unseen("no link at all")) == (late, ())
    alone = first_state("m", FACTORY)
    for other in (alone, new(), after(state, Offered(ALL)), after(new(), follows(FACTORY, 1))):
        assert step(other, Unseen("no link")) == (other, ())


def test_what_is_reported_is_bounded_whatever_kept_the_device_from_looking() -> None:
    state = after(new(), follows(R2, 1))
    assert view_of(state, FACTORY, "x" * 10_000).why == "x" * WHY_MAX


# Refusals


def test_what_was_refused_is_tried_again_under_a_higher_attempt_only() -> None:
    state = after(new(), follows(R2, 1), Offered(ALL))
    state = after(state, Rejected(state.generation, "slow"))
    assert phase(state) == DevicePhase.REJECTED
    assert step(state, Offered(ALL)) == (state, ())
    for copy in (follows(R2, 2), follows(R2, 3, stage="shadow")):
        state = after(state, copy, Offered((release(9, R2.version),)))
        assert (phase(state), state.candidate) == (DevicePhase.REJECTED, None)
    state = after(state, follows(R3, 4), follows(R2, 5))  # by way of another one, too
    assert view_of(state, FACTORY).why == "slow"
    assert (state.phase, state.why) == ("rejected", "slow")
    assert after(state, follows(R2, 6, attempt=2), Offered(ALL)).candidate == R2
    assert after(state, RetryAsked(), Offered(ALL)).candidate == R2


def test_golden_samples_that_failed_are_told_apart() -> None:
    state = after(new(), follows(R2, 1), Offered(ALL))
    for golden in (True, False):
        ends = after(state, Rejected(state.generation, "differs", golden=golden))
        assert view_of(ends, FACTORY).golden_failed == golden


def test_a_failure_is_tried_again_at_the_next_look() -> None:
    state = after(new(), follows(R2, 1), Offered(ALL))
    state = after(state, Failed(state.generation, "disk full"))
    assert (phase(state), view_of(state, FACTORY).why) == (DevicePhase.FAILED, "disk full")
    assert after(state, Offered(ALL)).candidate == R2


def test_a_failure_stands_until_the_next_look_unless_the_fleet_asks_anew() -> None:
    state = after(new(), follows(R2, 1), Offered(ALL))
    state = after(state, Failed(state.generation, "disk full"))
    same = after(state, follows(R2, 2, stage="shadow"))
    assert (phase(same), view_of(same, FACTORY).why) == (DevicePhase.FAILED, "disk full")
    for anew in (follows(R2, 2, attempt=2), follows(R3, 2)):
        assert phase(after(state, anew)) == DevicePhase.ACCEPTED


def test_a_version_that_keeps_ending_the_agent_is_rolled_back() -> None:
    state = runs(R2, runs(R1, new(), 1), 2)
    for _ in range(STARTS_MAX + 1):
        state, faults = begin(state)
    fallen = fall_back(state, R1, faults)
    assert phase(fallen) == DevicePhase.ROLLED_BACK
    assert after(fallen, Offered(ALL)).candidate is None
    assert phase(after(fallen, follows(R2, 3))) == DevicePhase.ROLLED_BACK
    assert after(fallen, follows(R2, 3, attempt=2), Offered(ALL)).candidate == R2


def test_a_version_that_ends_the_agent_while_another_is_asked_for_says_nothing_about_that() -> None:
    state = after(runs(R2, runs(R1, new(), 1), 2), follows(R3, 3), Offered(ALL))
    fallen = fall_back(state, R1, (Fault(R2, "did not last", refuse=True),))
    assert phase(fallen) == DevicePhase.ACCEPTED
    assert after(fallen, Offered(ALL)).candidate == R3


def test_damaged_files_are_fetched_again() -> None:
    fallen = fall_back(runs(R2, new(), 1), FACTORY, (Fault(R2, "bit flipped", refuse=False),))
    assert phase(fallen) == DevicePhase.FAILED
    assert after(fallen, Offered(ALL)).candidate == R2


# Staged


def staged() -> State:
    state = after(runs(R1, new(), 1), follows(R2, 2, stage="shadow"), Offered(ALL))
    return probed(state)


def test_in_stage_shadow_it_is_staged_and_waits() -> None:
    state = after(runs(R1, new(), 1), follows(R2, 2, stage="shadow"), Offered(ALL))
    g = state.generation
    state, commands = step(after(state, Downloaded(g), Verified(g)), Probed(g, "fast"))
    assert (phase(state), state.active) == (DevicePhase.STAGED, R1)
    assert Stage(g, R2) in commands
    assert step(state, Tried(g, "late")) == (state, ())
    assert step(state, Offered(ALL)) == (state, ())


def test_live_makes_a_trial_of_the_same_run() -> None:
    state = staged()
    live, commands = step(state, follows(R2, 3))
    assert Try(state.generation, R2) in commands
    assert (phase(live), live.generation) == (DevicePhase.TRIAL, state.generation)
    back, commands = step(live, follows(R2, 4, stage="shadow"))
    assert Stage(state.generation, R2) in commands
    assert phase(back) == DevicePhase.STAGED
    done, commands = step(live, Tried(live.generation, "agrees"))
    assert Activate(live.generation, R2) in commands
    assert phase(done) == DevicePhase.COMMITTED


def test_a_staged_candidate_goes_when_the_fleet_wants_another_or_none() -> None:
    for withdrawn in (follows(R1, 3), follows(R3, 3), Followed(None)):
        state, commands = step(staged(), withdrawn)
        assert (state.candidate, state.active) == (None, R1)
        assert Prune(state.generation) in commands


def test_a_staged_candidate_that_is_bad_is_rejected_there() -> None:
    state = staged()
    state = after(state, Rejected(state.generation, "NaN"))
    assert (phase(state), state.active) == (DevicePhase.REJECTED, R1)


def test_a_staged_candidate_that_is_retired_is_given_up() -> None:
    assert after(staged(), Offered((R1,))).candidate is None


def test_a_restart_resumes_staged_and_counts_ends_until_it_has_lasted() -> None:
    state, commands = step(staged(), Started())
    assert Stage(state.generation, R2) in commands
    for _ in range(3 * TRIES_MAX):  # power cuts, over weeks
        state = after(state, Started())
        assert state.phase == "staged"
        state = after(state, Lasted(state.generation))
    for _ in range(TRIES_MAX - 1):
        state = after(state, Started())
    assert phase(after(state, Started())) == DevicePhase.REJECTED


# Undo


def test_an_undo_goes_to_a_kept_version_without_download_or_trial() -> None:
    state = runs(R2, runs(R1, new(), 1), 2)
    for wanted in (R1, FACTORY):
        there, commands = step(state, follows(wanted, 3, undo=True))
        assert Restore(there.generation, wanted) in commands
        assert not any(isinstance(command, Fetch) for command in commands)
        assert step(there, Offered(ALL)) == (there, ())
        done, commands = step(there, Restored(there.generation))
        assert commands[0] == Activate(there.generation, wanted)
        assert (done.active, done.held_number, done.proven) == (wanted, None, True)
        assert phase(done) == DevicePhase.COMMITTED
        assert after(done, follows(R2, 4), Offered(ALL)).candidate == R2  # no hold is left


def test_an_undo_that_is_told_again_goes_on() -> None:
    state = after(runs(R2, runs(R1, new(), 1), 2), follows(R1, 3, undo=True))
    for again in (follows(R1, 4, undo=True), follows(R1, 4)):
        told, commands = step(state, again)
        assert (told.phase, told.generation, commands) == ("restoring", state.generation, ())


def test_in_stage_shadow_nothing_is_undone() -> None:
    state = runs(R2, runs(R1, new(), 1), 2)
    shadow = follows(R1, 4, undo=True, stage="shadow")
    assert after(state, shadow, Offered(ALL)).phase == "downloading"
    undoing = after(state, follows(R1, 3, undo=True))
    assert after(undoing, shadow).candidate is None


def test_an_undo_goes_to_the_factory_bundle_that_is_kept_no_more() -> None:
    state = runs(R3, runs(R2, runs(R1, new(), 1), 2), 3)
    assert FACTORY not in state.previous
    assert after(state, follows(FACTORY, 4, undo=True)).candidate == FACTORY


def test_an_undo_gives_up_what_is_on_its_way() -> None:
    state = after(runs(R2, runs(R1, new(), 1), 2), follows(R3, 3), Offered(ALL))
    old = state.generation
    state = after(state, follows(R1, 4, undo=True))
    assert (state.candidate, state.phase) == (R1, "restoring")
    assert step(state, Downloaded(old)) == (state, ())


def test_without_undo_a_kept_version_is_tried_as_any_other() -> None:
    state = after(runs(R2, runs(R1, new(), 1), 2), follows(R1, 3), Offered(ALL))
    assert state.phase == "downloading"
    assert after(state, follows(R1, 4, undo=True)).phase == "restoring"  # in the middle of it


def test_an_undo_to_what_is_not_here_any_more_goes_the_normal_way() -> None:
    state = runs(R3, runs(R2, runs(R1, new(), 1), 2), 3)
    state = replace(state, previous=(R2,))
    state = after(state, follows(R1, 4, undo=True), Offered(ALL))
    assert (state.candidate, state.phase) == (R1, "downloading")


def test_an_undo_to_a_damaged_version_fetches_it_anew() -> None:
    state = after(runs(R2, runs(R1, new(), 1), 2), follows(R1, 3, undo=True))
    state = after(state, NotRestored(state.generation, "bit flipped"))
    assert (phase(state), state.previous) == (DevicePhase.ACCEPTED, (FACTORY,))
    assert "bit flipped" in view_of(state, state.active).why
    state = after(state, Offered(ALL))
    assert (state.candidate, state.phase) == (R1, "downloading")


def test_an_undo_that_was_killed_goes_on() -> None:
    state = after(runs(R2, runs(R1, new(), 1), 2), follows(R1, 3, undo=True))
    state, commands = step(state, Started())
    assert Restore(state.generation, R1) in commands


# An operator on the device


def test_an_operator_wins_until_he_resumes() -> None:
    state = after(runs(R2, runs(R1, new(), 1), 2), follows(R3, 3), Offered(ALL), RolledBack(R1))
    view = view_of(state, state.active)
    assert (view.phase, view.why) == (DevicePhase.ROLLED_BACK, OPERATOR)
    assert step(state, Offered((release(50), *ALL))) == (state, ())
    state = after(state, follows(R2, 4, undo=True))
    assert (phase(state), state.active) == (DevicePhase.ROLLED_BACK, R1)
    assert state.candidate is None
    state = after(state, HoldReleased(FACTORY))
    assert (state.phase, state.candidate) == ("restoring", R2)


def test_resume_without_a_hold_changes_nothing() -> None:
    failed = after(staged(), Failed(staged().generation, "disk full"))
    for state in (staged(), failed):
        assert step(state, HoldReleased()) == (state, ())


# Joining and leaving


def test_a_device_that_joins_a_fleet_gives_up_what_it_took_by_itself() -> None:
    alone = after(first_state("m", FACTORY), Offered(ALL))
    assert after(replace(alone, follows=True), Started()).candidate is None


def test_a_device_that_leaves_its_fleet_tries_what_was_staged() -> None:
    left = replace(staged(), follows=False, target=None)
    state = after(left, Started())
    assert (state.phase, state.candidate) == ("trial", R2)
    undoing = after(runs(R2, runs(R1, new(), 1), 2), follows(R1, 3, undo=True))
    left = after(replace(undoing, follows=False, target=None), Started())
    assert (left.phase, left.candidate, left.active) == ("idle", None, R2)


# Whatever comes, in whatever order

numbers = st.integers(0, 12)
releases = st.builds(release, st.integers(1, 4))


def wishes_for(*stages: str) -> st.SearchStrategy[Followed]:
    return st.builds(
        lambda wanted, generation, stage, attempt, undo: follows(
            wanted, generation, stage=stage, attempt=attempt, undo=undo
        ),
        st.one_of(releases, st.just(FACTORY)), st.integers(1, 8), st.sampled_from(stages),
        st.integers(1, 2), st.booleans(),
    )  # fmt: skip


progress = (Downloaded, Verified, Probed, Tried, Lasted, Restored)
events = st.one_of(
    wishes_for("shadow", "live"), st.just(Followed(None)), st.builds(Started), st.builds(Resumed), st.builds(Stopped),
    st.builds(Unseen, st.just("cut")),
    st.builds(HoldReleased, st.just(FACTORY)), st.builds(RetryAsked), st.builds(RolledBack, releases),
    st.builds(
        Offered, st.lists(releases, max_size=4).map(tuple), st.none(), st.booleans(),
    ),
    st.builds(Downloaded, numbers), st.builds(Verified, numbers), st.builds(Probed, numbers, st.just("")),
    st.builds(Tried, numbers, st.just("")), st.builds(Lasted, numbers), st.builds(Restored, numbers),
    st.builds(NotRestored, numbers, st.just("bad")), st.builds(Rejected, numbers, st.just("bad")),
    st.builds(Failed, numbers, st.just("no")), st.builds(Interrupted, numbers, st.just("cut")),
)  # fmt: skip


@given(st.lists(events, max_size=60))
def test_only_what_the_fleet_named_or_was_here_ever_answers(happened: list[Event]) -> None:
    state, named = new(), {FACTORY.manifest_sha256}
    for event in happened:
        if isinstance(event, progress):
            event = replace(event, generation=state.generation)  # noqa: PLW2901
        before, (state, commands) = state, step(state, event)
        if isinstance(event, Followed) and event.target is not None and state != before:
            named.add(event.target.manifest_sha256)
        assert state.active.manifest_sha256 in named
        assert state.followed >= before.followed
        assert (state.candidate is None) == (state.phase in WAITING)
        assert len(state.previous) <= KEPT
        assert len(state.refused) <= REFUSED_MAX
        assert not any(kept.same_as(state.active) for kept in state.previous)
        assert all(command.generation == state.generation for command in commands)
        if state.candidate is not None:
            assert state.target is not None
            assert state.target.names(state.candidate)
            assert state.held_number is None
        if state.active != before.active:
            assert isinstance(event, Tried | Restored | RolledBack)
        if isinstance(event, Followed):
            assert step(state, event) == (state, ())  # a copy
        view_of(state, state.active)


@given(st.lists(events, max_size=40), wishes_for("live"))
def test_from_wherever_it_was_killed_it_comes_to_what_the_fleet_asks(
    happened: list[Event], wish: Followed
) -> None:
    state = new()
    for event in happened:
        state = after(state, event)
    assert wish.target is not None
    last = replace(wish.target, generation=state.followed + 1, attempt=9)
    state = after(state, HoldReleased(FACTORY), Followed(last, FACTORY), Started())
    everything = (*map(release, range(1, 5)), replace(FACTORY, number=99))
    for _ in range(2):
        state = after(state, Offered(everything))
        for made in (Downloaded, Verified, Restored):
            state = after(state, made(state.generation))
        for told in (Probed, Tried):
            state = after(state, told(state.generation, ""))
    assert last.names(state.active)
    assert phase(state) == DevicePhase.COMMITTED
