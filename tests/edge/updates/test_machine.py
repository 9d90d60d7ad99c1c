from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.updates.choice import choose
from edge.updates.events import (
    Activate,
    Downloaded,
    Event,
    Failed,
    Fetch,
    HoldReleased,
    Interrupted,
    Offered,
    Probe,
    Probed,
    Proven,
    Rejected,
    Resumed,
    RetryAsked,
    RolledBack,
    Started,
    Stopped,
    SwapFailed,
    Tried,
    Try,
    Verified,
    Verify,
)
from edge.updates.machine import TRIES_MAX, step
from edge.updates.release import Release
from edge.updates.starting import STARTS_MAX, Fault, begin, fall_back, in_order
from edge.updates.state import KEPT, REFUSED_MAX, State, first_state


def release(number: int, version: str | None = None) -> Release:
    """The bytes go by the version."""
    named = version or f"{number}.0.0"
    return Release(named, f"{named.split('.')[0]:0>64}", 100, number)


FACTORY = release(0)
R1, R2, R3, R4, R5 = map(release, range(1, 6))


def after(state: State, *events: Event) -> State:
    for event in events:
        state, _ = step(state, event)
    return state


def passed(state: State) -> State:
    """The candidate on its way gets through."""
    g = state.generation
    return after(state, Downloaded(g), Verified(g), Probed(g, "fast"), Tried(g, "agrees"))


def updated(*releases: Release) -> State:
    state = first_state("m", FACTORY)
    for new in releases:
        state = passed(after(state, Offered((new,))))
    return state


def test_the_way_from_an_offer_to_active() -> None:
    state = first_state("m", FACTORY)
    state, commands = step(state, Offered((R1, R2)))
    g = state.generation
    assert (state.phase, state.candidate, Fetch(g, R2) in commands) == ("downloading", R2, True)
    state, commands = step(state, Downloaded(g))
    assert (state.phase, commands) == ("verifying", (Verify(g, R2),))
    state, commands = step(state, Verified(g))
    assert (state.phase, commands) == ("probing", (Probe(g, R2),))
    state, commands = step(state, Probed(g, "0.2 ms"))
    assert (state.phase, Try(g, R2) in commands) == ("trial", True)
    state, commands = step(state, Tried(g, "agrees"))
    assert (state.phase, state.active, state.previous) == ("active", R2, (FACTORY,))
    assert commands[0] == Activate(g, R2)
    assert state.candidate is None
    assert not state.proven


def test_two_versions_before_the_active_one_are_kept() -> None:
    state = updated(R1, R2, R3, R4)
    assert (state.active, state.previous) == (R4, (R3, R2))


def test_the_second_copy_of_an_event_changes_nothing() -> None:
    state = after(first_state("m", FACTORY), Offered((R1,)))
    g = state.generation
    for event in (Downloaded(g), Verified(g), Probed(g, ""), Tried(g, "")):
        state = after(state, event)
        assert step(state, event) == (state, ())


def test_an_event_of_a_candidate_that_was_given_up_changes_nothing() -> None:
    state = after(first_state("m", FACTORY), Offered((R1,)))
    old = state.generation
    state = after(state, Offered((R2,)))
    assert state.candidate == R2
    for event in (Downloaded(old), Rejected(old, "x"), Failed(old, "x"), Interrupted(old, "x")):
        assert step(state, event) == (state, ())


def test_a_rejected_version_leaves_the_active_one_and_waits_for_a_higher_number() -> None:
    state = after(updated(R1), Offered((R2,)))
    state = after(state, Rejected(state.generation, "answers differ"))
    assert (state.phase, state.active, state.why) == ("rejected", R1, "answers differ")
    assert after(state, Offered((R2,))) == state
    assert after(state, Offered((R3, R2))).candidate == R3
    again = release(4, R2.version)  # the same bytes, released once more
    assert after(state, Offered((again,))).candidate == again


def test_an_operator_may_have_a_rejected_version_tried_again() -> None:
    state = after(updated(R1), Offered((R2,)))
    state = after(state, Rejected(state.generation, "slow"), RetryAsked(), Offered((R2,)))
    assert state.candidate == R2


def test_a_failure_of_the_device_is_tried_again_at_the_next_look() -> None:
    state = after(first_state("m", FACTORY), Offered((R1,)))
    state = after(state, Failed(state.generation, "disk full"))
    assert (state.phase, state.candidate, state.refused) == ("failed", None, ())
    assert after(state, Offered((R1,))).candidate == R1


def test_a_cut_stays_in_its_phase_and_is_resumed() -> None:
    state = after(first_state("m", FACTORY), Offered((R1,)))
    g = state.generation
    state = after(state, Interrupted(g, "cut off"))
    assert (state.phase, state.why) == ("downloading", "cut off")
    assert step(state, Resumed()) == (state, (Fetch(g, R1),))


def test_a_candidate_that_is_retired_on_its_way_is_given_up() -> None:
    state = after(updated(R1), Offered((R2,)), Offered((R1,)))
    assert (state.phase, state.candidate, state.active) == ("idle", None, R1)


def test_a_start_resumes_each_phase_with_a_new_generation() -> None:
    state = after(first_state("m", FACTORY), Offered((R1,)))
    for kind, done in ((Fetch, Downloaded), (Verify, Verified), (Probe, None), (Try, None)):
        again, commands = step(state, Started())
        assert again.generation == state.generation + 1
        assert kind(again.generation, R1) in commands
        if done is not None:
            state = after(state, done(state.generation))
        else:
            state = after(state, Probed(state.generation, ""))


@pytest.mark.parametrize("phase", ["probing", "trial"])
def test_a_candidate_in_whose_probe_or_trial_the_agent_keeps_dying_is_rejected(phase: str) -> None:
    state = after(updated(R1), Offered((R2,)))
    g = state.generation
    state = after(state, Downloaded(g), Verified(g))
    if phase == "trial":
        state = after(state, Probed(g, ""))
    for _ in range(TRIES_MAX - 1):
        state = after(state, Started())
        assert state.phase == phase
    state = after(state, Started())
    assert (state.phase, state.active) == ("rejected", R1)
    assert after(state, Offered((R2,))).candidate is None


def test_a_swap_that_the_agent_does_not_take_puts_the_pointer_back() -> None:
    state = updated(R1, R2)
    state = after(state, SwapFailed(state.generation, "no such threshold", R1))
    assert (state.phase, state.active, state.previous) == ("rejected", R1, (FACTORY,))
    assert state.refused[0].release == R2


def test_a_rollback_goes_to_either_kept_version_and_holds() -> None:
    state = updated(R1, R2, R3)
    for target, rest in ((R2, (R1, R3)), (R1, (R2, R3))):
        back, commands = step(state, RolledBack(target))
        assert (back.active, back.previous, back.phase) == (target, rest, "active")
        assert Activate(back.generation, target) in commands
        assert after(back, Offered((R3,))) == back  # held
        assert after(back, Offered((R4, R3))).candidate == R4  # a newer number
        assert after(back, HoldReleased(), Offered((R3,))).candidate == R3


def test_a_rollback_in_the_middle_of_an_update_ends_that() -> None:
    state = after(updated(R1, R2), Offered((R3,)))
    old = state.generation
    state = after(state, RolledBack(R1))
    assert (state.active, state.candidate, state.held_number) == (R1, None, 3)
    assert step(state, Tried(old, "late")) == (state, ())


def test_a_rollback_to_what_is_kept_no_more_changes_nothing() -> None:
    state = updated(R1, R2, R3, R4)
    assert step(state, RolledBack(R1)) == (state, ())


def test_a_rollback_to_the_factory_bundle_is_always_possible() -> None:
    state = after(updated(R1, R2, R3, R4), RolledBack(FACTORY))
    assert (state.active, state.previous) == (FACTORY, (R3, R4))


def test_a_retired_release_is_left_for_the_newest_that_stands() -> None:
    state = updated(R1, R2)
    assert after(state, Offered((R1,))).candidate == R1


def test_the_pin_decides() -> None:
    state = updated(R2)
    assert choose(state, (R3, R2, R1), "1.0.0").release == R1
    assert choose(state, (R3, R2), "2.0.0").release is None
    assert "not released" in choose(state, (R3,), "9.0.0").why
    assert choose(state, (), None).release is None


def test_what_runs_already_under_another_number_is_not_fetched() -> None:
    assert choose(updated(R1), (release(7, R1.version),), None).release is None
    assert choose(first_state("m", FACTORY), (release(7, "0.0.0"),), None).release is None


# At start


def test_a_version_that_keeps_ending_the_agent_is_left_for_the_one_before() -> None:
    state = updated(R1, R2)
    for _ in range(STARTS_MAX):
        state, faults = begin(state)
        assert not faults
    state, faults = begin(state)
    assert [fault.release for fault in faults] == [R2]
    fallen = fall_back(state, R1, faults)
    assert (fallen.active, fallen.previous, fallen.phase) == (R1, (FACTORY,), "failed")
    assert after(fallen, Offered((R2,))).candidate is None  # refused


def test_orderly_ends_during_a_trial_are_not_held_against_the_candidate() -> None:
    state = after(first_state("m", FACTORY), Offered((R1,)))
    state = after(state, Downloaded(state.generation), Verified(state.generation))
    for _ in range(3 * TRIES_MAX):
        state = after(state, Started(), Stopped())
    assert (state.phase, state.candidate) == ("probing", R1)


def test_orderly_ends_and_a_proven_version_are_no_crashes() -> None:
    state = updated(R1)
    for _ in range(3 * STARTS_MAX):
        state, faults = begin(state)
        assert not faults
        state = after(state, Stopped())
    state = after(state, Proven())
    for _ in range(3 * STARTS_MAX):
        state, faults = begin(state)
        assert not faults


def test_the_order_at_start() -> None:
    assert in_order(updated(R1, R2, R3), FACTORY) == (R3, R2, R1, FACTORY)
    assert in_order(updated(R1), FACTORY) == (R1, FACTORY)
    assert in_order(first_state("m", FACTORY), FACTORY) == (FACTORY,)
    rolled_back = after(updated(R1, R2), RolledBack(FACTORY))
    assert in_order(rolled_back, FACTORY) == (FACTORY, R1, R2)


def test_damaged_files_are_fetched_again() -> None:
    state = updated(R1, R2)
    fallen = fall_back(state, R1, (Fault(R2, "bit flipped", refuse=False),))
    assert fallen.active == R1
    assert after(fallen, Offered((R2,))).candidate == R2


# Whatever comes, in whatever order

numbers = st.integers(0, 12)
releases = st.builds(release, st.integers(1, 6))
events = st.one_of(
    st.builds(Started), st.builds(Resumed), st.builds(HoldReleased), st.builds(RetryAsked),
    st.builds(Proven), st.builds(Stopped), st.builds(RolledBack, st.one_of(releases, st.just(FACTORY))),
    st.builds(Offered, st.lists(releases, max_size=4).map(tuple)),
    st.builds(Downloaded, numbers), st.builds(Verified, numbers), st.builds(Probed, numbers, st.just("")),
    st.builds(Tried, numbers, st.just("")), st.builds(Rejected, numbers, st.just("bad")),
    st.builds(Failed, numbers, st.just("no")), st.builds(Interrupted, numbers, st.just("cut")),
)  # fmt: skip


@given(st.lists(events, max_size=60))
def test_whatever_happens_the_state_is_sound(happened: list[Event]) -> None:
    state = first_state("m", FACTORY)
    for event in happened:
        if isinstance(event, Downloaded | Verified | Probed | Tried):
            event = replace(event, generation=state.generation)  # noqa: PLW2901
        before, (state, commands) = state, step(state, event)
        assert (state.candidate is None) == (
            state.phase in ("idle", "active", "rejected", "failed")
        )
        assert len(state.previous) <= KEPT
        assert len(state.refused) <= REFUSED_MAX
        assert not any(kept.same_as(state.active) for kept in state.previous)
        assert state.generation >= before.generation
        assert all(command.generation == state.generation for command in commands)
        if state.active != before.active:
            assert isinstance(event, Tried | RolledBack)
            assert any(isinstance(command, Activate) for command in commands)
