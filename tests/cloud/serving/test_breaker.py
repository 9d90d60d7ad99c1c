from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from cloud.serving.batcher import Draining
from cloud.serving.breaker import Breaker, State
from cloud.serving.failures import Broken, Failure, failure_of
from cloud.serving.fallback_settings import BreakerSettings
from cloud.serving.refusal import QueueFull
from cloud.serving.reliability_metrics import ReliabilityMetrics
from shared.errors import (
    DeadlineMissed,
    Disconnected,
    Forbidden,
    Malformed,
    Overloaded,
    TooLarge,
    Unavailable,
    Unknown,
)

SETTINGS = BreakerSettings(
    window_s=10, failed_share=0.5, calls_min=4, pause_s=1, pause_s_max=4, probes=2
)
NEUTRAL: tuple[Failure, ...] = ("overload", "deadline", "refused", "away")


def calls(breaker: Breaker, now: float, *ends: Failure | None) -> None:
    for end in ends:
        breaker.ended(breaker.admit(now), now, end)


def opened(now: float = 0.0) -> Breaker:
    breaker = Breaker(SETTINGS, "tiny")
    calls(breaker, now, *["fault"] * 4)
    assert breaker.state == "open"
    return breaker


def held_back_s(breaker: Breaker, now: float) -> float:
    with pytest.raises(Broken) as refusal:
        breaker.admit(now)
    return refusal.value.retry_after_s or 0.0


def test_opens_when_half_of_enough_answers_are_faults() -> None:
    breaker = Breaker(SETTINGS, "tiny")
    calls(breaker, 0.0, None, None, None, "fault", "fault")
    assert breaker.state == "closed"
    calls(breaker, 0.0, "fault")
    assert breaker.state == "open"
    assert breaker.opened == 1


def test_too_few_answers_say_nothing() -> None:
    breaker = Breaker(SETTINGS, "tiny")
    calls(breaker, 0.0, "fault", "fault", "fault")
    assert breaker.state == "closed"


@pytest.mark.parametrize("failure", NEUTRAL)
def test_what_is_not_the_models_fault_never_opens_it_and_never_hides_one(failure: Failure) -> None:
    breaker = Breaker(SETTINGS, "tiny")
    calls(breaker, 0.0, *[failure] * 1_000)
    assert breaker.state == "closed"
    calls(breaker, 0.0, *["fault"] * 4)
    assert breaker.state == "open"


def test_faults_of_long_ago_are_forgotten() -> None:
    breaker = Breaker(SETTINGS, "tiny")
    calls(breaker, 0.0, "fault", "fault", "fault")
    calls(breaker, 10.1, "fault", "fault", "fault")
    assert breaker.state == "closed"
    calls(breaker, 14.0, "fault")
    assert breaker.state == "open"


def test_faults_just_before_are_remembered_when_the_half_window_turns() -> None:
    breaker = Breaker(SETTINGS, "tiny")
    calls(breaker, 4.9, "fault", "fault", "fault")
    calls(breaker, 9.95, "fault")
    assert breaker.state == "open"


def test_good_answers_of_long_ago_do_not_hide_a_model_that_fails_now() -> None:
    breaker = Breaker(SETTINGS, "tiny")
    calls(breaker, 0.0, *[None] * 1_000)
    calls(breaker, 20.0, *["fault"] * 4)
    assert breaker.state == "open"


def test_while_open_the_model_is_left_alone_and_says_for_how_long() -> None:
    breaker = opened()
    assert held_back_s(breaker, 0.25) == pytest.approx(0.75)
    assert breaker.held_back == 1


def test_half_open_lets_a_few_through_and_closes_when_each_was_answered() -> None:
    breaker = opened()
    first, second = breaker.admit(1.0), breaker.admit(1.0)
    held_back_s(breaker, 1.0)
    breaker.ended(first, 1.1, None)
    held_back_s(breaker, 1.1)  # both probes are given: one passed, one under way
    assert breaker.state == "half-open"
    breaker.ended(second, 1.2, None)
    assert breaker.state == "closed"
    calls(breaker, 1.2, "fault", "fault", "fault")
    assert breaker.state == "closed"  # the faults from before it opened are gone


def test_a_probe_that_fails_opens_it_for_twice_as_long_up_to_a_limit() -> None:
    breaker, now = opened(), 0.0
    for pause_s, longer_s in ((1.0, 2.0), (2.0, 4.0), (4.0, 4.0)):
        now += pause_s
        breaker.ended(breaker.admit(now), now, "fault")
        assert held_back_s(breaker, now) == pytest.approx(longer_s)
    now += 4.0
    calls(breaker, now, None, None)
    calls(breaker, now, *["fault"] * 4)
    assert held_back_s(breaker, now) == pytest.approx(1.0)  # short again


@pytest.mark.parametrize("failure", NEUTRAL)
def test_a_probe_that_says_nothing_of_the_model_gives_its_place_to_another(
    failure: Failure,
) -> None:
    breaker = opened()
    for _ in range(10):
        breaker.ended(breaker.admit(1.0), 1.0, failure)
    assert breaker.state == "half-open"
    calls(breaker, 1.0, None, None)
    assert breaker.state == "closed"


def test_probes_that_are_never_heard_of_again_are_given_up() -> None:
    breaker = opened()
    breaker.admit(1.0)
    breaker.admit(1.5)
    assert held_back_s(breaker, 2.0) == pytest.approx(0.5)
    calls(breaker, 2.5, None, None)
    assert breaker.state == "closed"


def test_what_was_admitted_in_an_earlier_state_says_nothing_about_this_one() -> None:
    breaker = Breaker(SETTINGS, "tiny")
    slow = [breaker.admit(0.0) for _ in range(8)]
    for admitted in slow[:4]:
        breaker.ended(admitted, 0.0, "fault")
    breaker.admit(1.0)
    for admitted in slow[4:6]:
        breaker.ended(admitted, 1.0, "fault")
    assert breaker.state == "half-open"
    for admitted in slow[6:]:
        breaker.ended(admitted, 1.0, None)
    assert breaker.state == "half-open"


def test_a_probe_that_was_lost_takes_no_place_for_longer_than_a_pause() -> None:
    breaker = opened()
    breaker.admit(1.0)  # whoever asked has left
    calls(breaker, 1.0 + SETTINGS.pause_s, *[None] * SETTINGS.probes)
    assert breaker.state == "closed"


def test_each_change_is_told_once() -> None:
    told: list[State] = []
    breaker = Breaker(SETTINGS, "tiny", told.append)
    calls(breaker, 0.0, *["fault"] * 4)
    calls(breaker, 1.0, None, None, None)
    assert told == ["open", "half-open", "closed"]


EVENT = st.tuples(
    st.floats(0, 3), st.sampled_from(["admit", "answer", "fault", "overload", "lose"])
)


@settings(deadline=None)  # the machine may be busy
@given(st.lists(EVENT, max_size=200))
def test_never_more_probes_than_allowed_and_never_stuck(events: list[tuple[float, str]]) -> None:
    breaker, now, wait_s_max = Breaker(SETTINGS, "tiny"), 0.0, 0.0
    under_way, refused_in = list[tuple[int, float]](), set[State]()
    for wait_s, what in events:
        now += wait_s
        state = breaker.state
        if what == "admit":
            try:
                admitted = breaker.admit(now)
                under_way.append((admitted, now))
            except Broken as refusal:
                wait_s_max = max(wait_s_max, refusal.retry_after_s or 0.0)
                refused_in.add(state)
        elif under_way:
            admitted, _ = under_way.pop(0)
            if what != "lose":
                ends: dict[str, Failure | None] = {"answer": None, "fault": "fault"}
                breaker.ended(admitted, now, ends.get(what, "overload"))
        if breaker.state == "half-open":
            lately = Counter(one for one, at in under_way if now - at < SETTINGS.pause_s)
            assert lately[breaker._period] <= SETTINGS.probes
    assert "closed" not in refused_in
    assert wait_s_max <= SETTINGS.pause_s_max
    now += SETTINGS.pause_s_max
    calls(breaker, now, None, None)
    assert breaker.state == "closed"


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (Malformed("x"), "refused"),
        (TooLarge("x"), "refused"),
        (Unknown("x"), "refused"),
        (Forbidden("x"), "refused"),
        (Overloaded("x"), "overload"),
        (QueueFull("x", 1.0), "overload"),
        (DeadlineMissed("x"), "deadline"),
        (Draining("x"), "away"),
        (Unavailable("onnxruntime failed"), "fault"),
        (Disconnected("triton"), "fault"),
        (Broken("x", 1.0), "fault"),
        (ValueError("3 outputs for 4 rows"), "fault"),
        (MemoryError(), "fault"),
    ],
)
def test_kinds_of_failure(error: Exception, failure: Failure) -> None:
    assert failure_of(error) == failure


def test_figures() -> None:
    registry = CollectorRegistry()
    metrics = ReliabilityMetrics(registry)
    breaker = opened()
    metrics.watch("tiny", breaker)
    held_back_s(breaker, 0.0)
    text = generate_latest(registry).decode()
    assert 'hybridge_breaker_open{model="tiny"} 1.0' in text
    assert 'hybridge_breaker_opened_total{model="tiny"} 1.0' in text
    assert 'hybridge_breaker_held_back_total{model="tiny"} 1.0' in text


def test_pauses_agree() -> None:
    with pytest.raises(ValueError, match="pause_s_max 1 is below pause_s 2"):
        BreakerSettings(pause_s=2, pause_s_max=1)
