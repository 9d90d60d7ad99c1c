"""Time is a number here, so nothing sleeps."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.serving.batch_queue import BatchQueue, QueueFull
from cloud.serving.latency_curve import LatencyCurve
from shared.errors import DeadlineMissed

CURVE = LatencyCurve({1: 1.0, 2: 1.5, 4: 2.5})  # seconds, to be easy to add up
NEVER = 1e9


def queue(*, size_max: int = 4, wait_s_max: float = 0.0, depth_max: int = 8) -> BatchQueue[str]:
    return BatchQueue(CURVE, size_max=size_max, wait_s_max=wait_s_max, depth_max=depth_max)


def test_an_idle_model_takes_what_is_there_at_once() -> None:
    q = queue()
    q.add("a", now=5.0, deadline=NEVER)
    q.add("b", now=5.0, deadline=NEVER)
    assert q.take(5.0).items == ["a", "b"]
    assert q.take(5.0).items == []


def test_a_full_batch_is_closed_and_the_next_one_collects() -> None:
    q = queue(size_max=2)
    for name in "abc":
        q.add(name, now=0.0, deadline=NEVER)
    assert [q.take(0.0).items, q.take(2.0).items] == [["a", "b"], ["c"]]


def test_the_promise_counts_what_runs_and_what_waits_ahead() -> None:
    q = queue(size_max=2)
    assert q.add("a", now=0.0, deadline=NEVER) == pytest.approx(1.0)
    q.take(0.0)  # runs until 1.0
    assert q.add("b", now=0.5, deadline=NEVER) == pytest.approx(2.0)
    assert q.add("c", now=0.5, deadline=NEVER) == pytest.approx(2.5)
    assert q.add("d", now=0.5, deadline=NEVER) == pytest.approx(3.5)


def test_every_batch_ahead_counts_before_and_after_one_leaves() -> None:
    q = queue(size_max=1)
    done = [q.add(name, now=0.0, deadline=NEVER) for name in "abcd"]
    assert done == pytest.approx([1.0, 2.0, 3.0, 4.0])
    q.take(0.0)
    assert q.add("e", now=0.5, deadline=NEVER) == pytest.approx(5.0)


def test_what_no_idle_model_could_answer_in_time_is_too_late() -> None:
    with pytest.raises(DeadlineMissed):
        queue().add("a", now=0.0, deadline=0.9)


def test_what_the_queue_delays_too_long_is_refused_with_the_time_until_it_is_clear() -> None:
    q = queue(size_max=1)
    q.add("a", now=0.0, deadline=NEVER)
    q.take(0.0)
    q.add("b", now=0.0, deadline=NEVER)
    with pytest.raises(QueueFull) as refused:
        q.add("c", now=0.0, deadline=2.5)
    assert refused.value.clear_s == pytest.approx(2.0)


def test_a_full_queue_refuses() -> None:
    q = queue(size_max=4, depth_max=4)
    for name in "abcd":
        q.add(name, now=0.0, deadline=NEVER)
    with pytest.raises(QueueFull) as refused:
        q.add("e", now=0.0, deadline=NEVER)
    assert refused.value.clear_s == pytest.approx(2.5)
    assert len(q) == 4


def test_company_that_would_make_an_urgent_one_late_goes_into_the_next_batch() -> None:
    q = queue()
    q.add("urgent", now=0.0, deadline=1.2)
    q.add("patient", now=0.0, deadline=NEVER)
    assert [q.take(0.0).items, q.take(1.0).items] == [["urgent"], ["patient"]]


def test_an_urgent_one_that_joins_later_is_protected_too() -> None:
    q = queue()
    q.add("patient", now=0.0, deadline=NEVER)
    q.add("urgent", now=0.0, deadline=1.6)
    q.add("third", now=0.0, deadline=NEVER)
    assert q.take(0.0).items == ["patient", "urgent"]


def test_a_wait_for_company_ends_when_the_batch_is_full_or_the_time_is_up() -> None:
    q = queue(size_max=2, wait_s_max=3.0)
    q.add("a", now=0.0, deadline=NEVER)
    assert q.take(2.9).items == []
    assert q.due_at() == pytest.approx(3.0)
    q.add("b", now=2.9, deadline=NEVER)
    assert q.take(2.9).items == ["a", "b"]
    q.add("c", now=10.0, deadline=NEVER)
    assert q.take(13.0).items == ["c"]


def test_waiting_for_company_takes_half_of_what_a_deadline_spares() -> None:
    q = queue(wait_s_max=3.0)
    assert q.add("urgent", now=0.0, deadline=2.0) == pytest.approx(1.5)
    assert q.due_at() == pytest.approx(0.5)
    q.take(0.5)
    assert q.add("patient", now=5.0, deadline=NEVER) == pytest.approx(9.0)
    assert q.add("urgent", now=5.5, deadline=7.5) == pytest.approx(7.25)
    assert q.due_at() == pytest.approx(5.75)


def test_a_machine_slower_than_promised_gives_up_the_late_and_runs_the_rest() -> None:
    q = queue()
    q.add("late", now=0.0, deadline=3.0)
    q.add("patient", now=0.0, deadline=NEVER)
    taken = q.take(2.0)
    assert (taken.missed, taken.items) == (["late"], ["patient"])


def test_bounds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="size_max"):
        queue(size_max=9, depth_max=8)


@dataclass
class Server:
    """Runs batches exactly as long as the curve says, one after the other, as the shell does."""

    q: BatchQueue[tuple[int, float]]
    free_at: float = 0.0
    finished: list[tuple[int, float, float]] = field(default_factory=list)  # n, deadline, done
    sizes: list[int] = field(default_factory=list)

    def advance(self, until: float) -> None:
        while (due := self.q.due_at()) is not None and max(due, self.free_at) <= until:
            start = max(due, self.free_at)
            batch = self.q.take(start)
            assert batch.items
            assert not batch.missed, "a promise was broken"
            self.free_at = start + CURVE.cost_s(len(batch.items))
            self.q.ran(self.free_at)
            self.sizes.append(len(batch.items))
            self.finished += [(n, deadline, self.free_at) for n, deadline in batch.items]


ARRIVALS = st.lists(
    st.tuples(st.floats(0, 2), st.one_of(st.floats(0, 12), st.just(NEVER))), max_size=60
)


@given(ARRIVALS, st.integers(1, 6), st.sampled_from([0.0, 0.7]))
def test_what_is_admitted_is_answered_once_in_order_and_within_its_deadline(
    arrivals: list[tuple[float, float]], size_max: int, wait_s_max: float
) -> None:
    depth_max = 10
    q = BatchQueue[tuple[int, float]](
        CURVE, size_max=size_max, wait_s_max=wait_s_max, depth_max=depth_max
    )
    server, now = Server(q), 0.0
    admitted: list[int] = []
    for n, (gap, budget) in enumerate(arrivals):
        now += gap
        server.advance(now)
        q_free = server.free_at
        if q_free <= now:
            q.ran(q_free)
        try:
            q.add((n, now + budget), now=now, deadline=now + budget)
        except (QueueFull, DeadlineMissed):
            continue
        admitted.append(n)
        assert len(q) <= depth_max
    server.advance(NEVER * 2)
    assert [n for n, _, _ in server.finished] == admitted
    assert all(done <= deadline + 1e-6 for _, deadline, done in server.finished)
    assert all(size <= size_max for size in server.sizes)
    assert len(q) == 0
