import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.registry.catalog.states import ENDS, TRANSITIONS, Event, after
from cloud.registry.documents import State
from shared.errors import Conflict

WAY = {
    State.TRAINED: {State.TRAINED, State.EVALUATING, State.REJECTED},
    State.EVALUATING: {State.EVALUATING, State.TRAINED, State.CANDIDATE, State.REJECTED},
    State.CANDIDATE: {State.CANDIDATE, State.RELEASED, State.REJECTED},
    State.RELEASED: {State.RELEASED, State.RETIRED},
    State.RETIRED: {State.RETIRED},
    State.REJECTED: {State.REJECTED},
}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_every_event_in_every_state_leads_where_the_way_of_a_model_says_or_is_refused(state, event):
    if (state, event) in TRANSITIONS:
        assert after(state, event) in WAY[state]
    else:
        with pytest.raises(Conflict, match=f"m 1 is {state}; only one that is .* can be {event}"):
            after(state, event, "m 1")


@given(st.lists(st.sampled_from(Event)))
def test_whatever_happens_nothing_is_released_that_was_no_candidate_and_ends_are_ends(events):
    state, before = State.TRAINED, [State.TRAINED]
    for event in events:
        try:
            state = after(state, event)
        except Conflict:
            continue
        before.append(state)
    if State.RELEASED in before:
        first = before.index(State.RELEASED)
        assert before[first - 1] is State.CANDIDATE
        assert State.EVALUATING in before[:first]
    for end in ENDS:
        if end in before:
            assert set(before[before.index(end) :]) == {end}


def test_only_ended_versions_are_deleted():
    assert {state for state, event in TRANSITIONS if event is Event.DELETED} == ENDS


def test_a_released_version_is_never_rejected_and_only_a_passed_one_becomes_a_candidate():
    with pytest.raises(Conflict, match="is released; only one that is candidate or evaluating"):
        after(State.RELEASED, Event.REJECTED)
    assert [
        event for (state, event), to in TRANSITIONS.items()
        if to is State.CANDIDATE and state is not State.CANDIDATE
    ] == [Event.PASSED]  # fmt: skip
