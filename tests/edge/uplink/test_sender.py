"""Time is a number here, so an hour of retries takes no time."""

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.journal.rows import Waiting
from edge.uplink.sender import NO_SUBSCRIBER, Limits, Sender
from shared.ids import SampleId
from tests.edge.samples import sample, waiting

LIMITS = Limits(unanswered_max=3, answer_timeout_s=5.0, backoff_s_min=0.2, backoff_s_max=30.0)
NEVER = math.inf


def sender(limits: Limits = LIMITS) -> Sender:
    return Sender(limits, random.Random(1), 0.0)


def fill(s: Sender, *confidences: float, fresh_until: float = NEVER) -> None:
    for number, confidence in enumerate(confidences):
        s.add(waiting(number, confidence=confidence), fresh_until)


def send_all(s: Sender, now: float) -> list[SampleId]:
    out = []
    while (name := s.next(now)) is not None:
        s.sent(name, 100, now)
        out.append(name)
    return out


def test_the_least_confident_goes_first_and_audits_last() -> None:
    s = sender()
    s.add(waiting(9, confidence=0.0, audit=True), NEVER)
    fill(s, 0.6, 0.2)
    assert send_all(s, 0.0) == [sample(1), sample(0), sample(9)]


def test_fresh_samples_go_before_the_backlog_until_they_are_stale() -> None:
    s = sender()
    s.add(waiting(1, confidence=0.1), fresh_until=-NEVER)
    s.add(waiting(2, confidence=0.9), fresh_until=1.0)
    assert s.next(0.5) == sample(2)
    assert s.next(1.0) == sample(1)


def test_no_more_are_out_than_may_be_unanswered() -> None:
    s = sender()
    fill(s, 0.1, 0.2, 0.3, 0.4)
    assert send_all(s, 0.0) == [sample(0), sample(1), sample(2)]
    s.discard(sample(1))
    assert send_all(s, 0.0) == [sample(3)]


def test_other_limits_hold_from_now_on() -> None:
    s = sender()
    fill(s, 0.1, 0.2, 0.3, 0.4)
    s.retune(replace(LIMITS, samples_per_s=1.0, burst_s=2.0), 0.0)
    assert len(send_all(s, 0.0)) == 2
    assert s.due_at(0.0) == pytest.approx(1.0)
    assert len(send_all(s, 1.0)) == 1
    s.retune(replace(LIMITS, unanswered_max=4), 1.0)
    assert len(send_all(s, 1.0)) == 1


def test_whoever_gets_no_answer_is_sent_again_with_jitter() -> None:
    s = sender()
    fill(s, 0.1)
    assert send_all(s, 0.0) == [sample(0)]
    assert s.due_at(0.0) == 5.0
    assert s.next(4.999) is None
    assert s.next(5.0) is None  # delayed by the jitter of one attempt
    assert s.next(5.0 + 0.4) == sample(0)


def test_without_our_session_everything_unanswered_is_sent_again_at_once() -> None:
    s = sender()
    fill(s, 0.1, 0.2)
    send_all(s, 0.0)
    s.connected(session_kept=True, now=1.0)
    assert s.next(1.0) is None
    s.connected(session_kept=False, now=1.0)
    assert send_all(s, 1.0) == [sample(0), sample(1)]


def test_what_never_reached_the_broker_is_ready_again() -> None:
    s = sender()
    fill(s, 0.1)
    send_all(s, 0.0)
    s.unsent(sample(0))
    assert s.next(0.0) == sample(0)


def test_nobody_serves_holds_everything_and_then_sends_one_probe() -> None:
    s = sender()
    fill(s, 0.1, 0.2, 0.3)
    out = send_all(s, 0.0)
    for name in out:
        assert s.acknowledged(name, NO_SUBSCRIBER, 0.01) is None
    assert not s.served
    assert s.next(0.01) is None
    due = s.due_at(0.01)
    assert due is not None
    assert 0.2 < due <= 0.01 + 0.2 + 0.4  # the window's bad news counted once
    assert send_all(s, due) == [sample(0)]
    s.acknowledged(sample(0), 0, due)
    assert s.served
    assert send_all(s, due) == [sample(1), sample(2)]


def test_a_probe_that_is_lost_does_not_hold_forever() -> None:
    s = sender()
    fill(s, 0.1)
    send_all(s, 0.0)
    s.acknowledged(sample(0), NO_SUBSCRIBER, 0.0)
    due = s.due_at(0.0)
    assert due is not None
    assert send_all(s, due) == [sample(0)]
    s.unsent(sample(0))
    assert s.next(due) == sample(0)


@pytest.mark.parametrize("reason", [0x87, 0x99])
def test_a_refusal_for_good_gives_up(reason: int) -> None:
    s = sender()
    fill(s, 0.1)
    send_all(s, 0.0)
    assert s.acknowledged(sample(0), reason, 0.0) == "broker_refused"


@pytest.mark.parametrize("reason", [0x80, 0x83, 0x97])
def test_a_refusal_for_now_is_tried_again(reason: int) -> None:
    s = sender()
    fill(s, 0.1)
    send_all(s, 0.0)
    assert s.acknowledged(sample(0), reason, 0.0) is None
    assert s.next(30.0) == sample(0)


def test_an_acknowledgement_after_the_answer_changes_nothing() -> None:
    s = sender()
    fill(s, 0.1)
    send_all(s, 0.0)
    assert s.discard(sample(0)) == 100
    assert s.acknowledged(sample(0), 0x87, 0.0) is None
    assert s.acknowledged(sample(0), NO_SUBSCRIBER, 0.0) is None
    s.unsent(sample(0))
    assert s.served
    assert s.due_at(0.0) is None


def test_a_refusal_with_a_time_waits_for_it_and_ends_the_hurry() -> None:
    s = sender()
    fill(s, 0.1, fresh_until=10.0)
    send_all(s, 0.0)
    assert s.hurried(sample(0))
    s.delay(sample(0), 2.0, 0.0)
    assert s.next(1.999) is None
    assert send_all(s, 2.0) == [sample(0)]
    assert not s.hurried(sample(0))


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.floats(0, 1), st.booleans()),
        st.tuples(st.just("pump"), st.integers(0, 5), st.none()),
        st.tuples(st.just("ack"), st.sampled_from([0, 0, 0x10, 0x80]), st.none()),
        st.tuples(st.just("answer"), st.none(), st.none()),
        st.tuples(st.just("lost"), st.booleans(), st.none()),
        st.tuples(st.just("wait"), st.floats(0, 20), st.none()),
    ),
    max_size=60,
)
TIGHT = Limits(
    unanswered_max=3, answer_timeout_s=5.0, backoff_s_min=0.2, backoff_s_max=30.0,
    samples_per_s=2.0, burst_s=2.0,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(EVENTS, st.randoms(use_true_random=False))
def test_bounds_hold_in_any_weather_and_everything_is_answered_after_it(
    events: list[tuple[str, object, object]], rng: random.Random
) -> None:
    s, now, number = Sender(TIGHT, rng, 0.0), 0.0, 0
    rows, unacked, published = dict[SampleId, Waiting](), list[SampleId](), 0

    def pump(room: int) -> None:
        nonlocal published
        while room > 0 and (name := s.next(now)) is not None:
            assert s.unanswered < TIGHT.unanswered_max
            assert published < 4 + 2 * now + 1e-6  # burst and rate
            s.sent(name, 100, now)
            unacked.append(name)
            published, room = published + 1, room - 1

    for kind, value, more in events:
        match kind:
            case "add":
                number += 1
                row = waiting(number, confidence=float(value), audit=bool(more))  # type: ignore[arg-type]  # a float
                rows[row.id] = row
                s.add(row, now + 1.0)
            case "pump":
                pump(int(value))  # type: ignore[call-overload]  # an int
            case "ack" if unacked:
                s.acknowledged(unacked.pop(0), int(value), now)  # type: ignore[call-overload]  # an int
            case "answer" if rows:
                name = rng.choice(sorted(rows))
                del rows[name]
                s.discard(name)
            case "lost":
                for name in unacked:
                    s.unsent(name)
                unacked.clear()
                s.connected(session_kept=bool(value), now=now)
            case "wait":
                now += float(value)  # type: ignore[arg-type]  # a float
    # the calm: every publish is acknowledged and answered at once
    for _ in range(10_000):
        if not rows:
            break
        for name in unacked:
            s.acknowledged(name, 0, now)
        unacked.clear()
        name = s.next(now)  # type: ignore[assignment]  # None is looked at below
        if name is not None:
            s.sent(name, 100, now)
            s.acknowledged(name, 0, now)
            s.discard(name)
            del rows[name]
        else:
            due = s.due_at(now)
            assert due is not None, "rows wait and nothing is due"
            assert due > now, "due now, yet nobody is next"
            now = due
    assert not rows


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30))
def test_when_the_budget_binds_the_least_confident_are_sent(
    rows: list[tuple[float, bool]],
) -> None:
    limits = Limits(1000, 5.0, 0.2, 30.0, samples_per_s=1.0, burst_s=5.0)
    s = sender(limits)
    for number, (confidence, audit) in enumerate(rows):
        s.add(waiting(number, confidence=confidence, audit=audit), NEVER)
    out = send_all(s, 0.0)
    assert len(out) == min(5, len(rows))
    order = sorted(
        range(len(rows)), key=lambda n: (rows[n][1], 0.0 if rows[n][1] else rows[n][0], n)
    )
    assert out == [sample(n) for n in order[: len(out)]]
