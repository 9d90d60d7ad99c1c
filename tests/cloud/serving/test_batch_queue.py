"""Examples, each for one rule. What nobody thought of is in `test_batch_queue_properties`."""

import contextlib
from math import inf

import pytest

from cloud.serving.batch import Batch
from cloud.serving.batch_queue import BatchQueue
from cloud.serving.batch_rules import BatchRules
from cloud.serving.latency_curve import LatencyCurve
from cloud.serving.refusal import QueueFull
from shared.errors import DeadlineMissed, Malformed, TooLarge
from tests.cloud.serving.waiter import BULK, INTERACTIVE, NEAR_LINE, NEVER, Waiter

CURVE = {1: 1.0, 2: 1.5, 4: 2.5}  # seconds, to be easy to add up; efficient from 3 rows on


class Queue:
    """The real one, spoken to in few words."""

    def __init__(self, measured: dict[int, float] | None = None, **rules: object) -> None:
        known = {"size_max": 4, "depth_max": 8, **rules}
        self.curve = LatencyCurve(measured or CURVE)
        self.q = BatchQueue[Waiter](self.curve, BatchRules(**known))  # type: ignore[arg-type]  # a test's own keywords
        self.batch: Batch[Waiter] | None = None

    def add(
        self, name: str, now: float = 0.0, deadline: float = NEVER,
        *, n: int = 1, priority: int = INTERACTIVE,
    ) -> float:  # fmt: skip
        return self.q.add(Waiter(name, n, deadline, priority), now)

    def take(self, now: float) -> str:
        """The names of who leaves, in one word."""
        self.batch = self.q.take(now)
        return "" if self.batch is None else "".join(job.name for job in self.batch.jobs)

    def ran(self, now: float) -> None:
        assert self.batch is not None
        self.q.ran(self.batch, now)

    @property
    def why(self) -> str:
        assert self.batch is not None
        return self.batch.why

    @property
    def missed(self) -> str:
        assert self.batch is not None
        return "".join(job.name for job in self.batch.missed)


def test_an_idle_model_takes_what_is_there_at_once() -> None:
    q = Queue()
    q.add("a", 5.0)
    q.add("b", 5.0)
    assert (q.take(5.0), q.why) == ("ab", "idle")
    assert q.take(5.0) == ""


def test_a_full_batch_is_closed_and_the_next_one_collects() -> None:
    q = Queue(size_max=2)
    for name in "abc":
        q.add(name)
    assert (q.take(0.0), q.why) == ("ab", "full")
    q.ran(1.5)
    assert (q.take(1.5), q.why) == ("c", "idle")


def test_a_job_of_several_rows_stays_whole() -> None:
    q = Queue()
    q.add("a", n=3)
    q.add("b", n=2)
    assert q.q.depth == 5
    assert (q.take(0.0), q.why) == ("a", "full")
    assert q.batch is not None
    assert q.batch.rows == 3
    q.ran(2.0)
    assert q.take(2.0) == "b"


def test_the_promise_counts_what_runs_and_what_waits_ahead() -> None:
    q = Queue(size_max=2)
    assert q.add("a") == pytest.approx(1.0)
    q.take(0.0)  # runs until 1.0
    assert q.add("b", 0.5) == pytest.approx(2.0)
    assert q.add("c", 0.5) == pytest.approx(2.5)
    assert q.add("d", 0.5) == pytest.approx(3.5)


def test_every_batch_ahead_counts_before_and_after_one_leaves() -> None:
    q = Queue(size_max=1)
    assert [q.add(name) for name in "abcd"] == pytest.approx([1.0, 2.0, 3.0, 4.0])
    q.take(0.0)
    assert q.add("e", 0.5) == pytest.approx(5.0)


def test_what_no_idle_model_could_answer_in_time_is_too_late() -> None:
    with pytest.raises(
        DeadlineMissed, match=r"900\.0 ms are left of its time; the model needs 1000\.0"
    ):
        Queue().add("a", deadline=0.9)


def test_what_the_queue_delays_too_long_is_refused_with_the_time_to_come_again() -> None:
    q = Queue(size_max=1)
    q.add("a")
    q.take(0.0)
    q.add("b")
    with pytest.raises(QueueFull) as refused:
        q.add("c", deadline=2.5)
    assert refused.value.retry_after_s == pytest.approx(2.0)


def test_a_full_queue_refuses_and_counts_rows() -> None:
    q = Queue(depth_max=5)
    q.add("a", n=3)
    q.add("b", n=2)
    with pytest.raises(QueueFull, match="5 rows already wait") as refused:
        q.add("c")
    assert refused.value.retry_after_s == pytest.approx(2.0 + 1.5)
    assert q.q.depth == 5
    q.take(0.0)
    q.add("c")
    with pytest.raises(QueueFull):
        q.add("d", n=3)
    q.add("e", n=2)
    assert q.q.depth == 5


def test_the_last_place_cannot_be_had_by_the_short_way_in_either() -> None:
    q = Queue(depth_max=4, size_max=4)
    q.add("a", n=2)
    q.add("b")
    q.add("c")  # joins in the few steps of the common case
    with pytest.raises(QueueFull):
        q.add("d")


def test_a_job_without_rows_and_one_too_wide_are_refused() -> None:
    q = Queue()
    for _ in "with an empty queue, and beside another":
        with pytest.raises(Malformed, match="without rows"):
            q.add("none", n=0)
        with pytest.raises(TooLarge, match="5 rows in one job; 4 are the most at priority 1"):
            q.add("wide", n=5)
        if not q.q.depth:
            q.add("a")


def test_company_that_would_make_an_urgent_one_late_goes_into_the_next_batch() -> None:
    q = Queue()
    q.add("u", deadline=1.2)
    q.add("p")
    assert (q.take(0.0), q.why) == ("u", "due")
    q.ran(1.0)
    assert q.take(1.0) == "p"


def test_an_urgent_one_that_joins_later_is_protected_too() -> None:
    q = Queue()
    q.add("p")
    q.add("u", deadline=1.6)
    q.add("t")
    assert q.take(0.0) == "pu"


@pytest.mark.parametrize("rules", [{}, {"p99_s": 6.0}])
def test_overload_is_served_in_efficient_batches(rules: dict[str, object]) -> None:
    """Else, with one deadline for all, each batch would be closed by its first member's."""
    q = Queue(depth_max=100, **rules)
    sizes: list[int] = []
    free_at = 0.0
    for step in range(1000):  # ten a second; the model does 1.6
        while free_at <= (now := step / 10):
            if q.batch is not None:
                q.ran(free_at)
            if q.take(max(free_at, now - 0.1)):
                assert q.batch is not None
                sizes.append(q.batch.rows)
                free_at = max(free_at, now - 0.1) + q.curve.cost_s(q.batch.rows)
            else:
                free_at = now + 0.1
        with contextlib.suppress(QueueFull):
            q.add("a", now, deadline=NEVER if rules else now + 6.0)
    assert min(sizes[2:]) >= 3


def test_behind_a_backlog_a_batch_opens_only_with_room_for_company() -> None:
    q = Queue(depth_max=100)
    for name in "abc":
        q.add(name, n=4)
    with pytest.raises(QueueFull):  # alone it would be in time, as one of four it would not
        q.add("d", deadline=9.9)
    q.add("e", deadline=10.0)


def test_where_time_is_short_room_for_an_efficient_batch_is_enough() -> None:
    q = Queue(depth_max=100)
    q.add("a", n=4)
    with pytest.raises(QueueFull):  # as one of three it would be late
        q.add("b", deadline=4.0)
    q.add("c", deadline=4.5)


def test_a_target_p99_refuses_what_would_take_longer() -> None:
    q = Queue(p99_s=5.0, depth_max=100)
    accepted = 0
    with pytest.raises(QueueFull, match=r"the wait would be 5000 ms") as refused:
        while True:
            assert q.add("a") <= 5.0
            accepted += 1
    assert accepted == 8
    assert refused.value.retry_after_s == pytest.approx(5.0)


def test_a_target_that_the_model_cannot_reach_does_not_refuse_everything() -> None:
    q = Queue(p99_s=0.001)
    assert q.add("a") == pytest.approx(1.0)
    q.take(0.0)
    assert q.add("b") == pytest.approx(2.0)
    with pytest.raises(QueueFull):
        q.add("c")


def test_a_target_is_no_deadline_for_those_who_are_in() -> None:
    q = Queue(p99_s=3.0)
    q.add("a")
    assert (q.take(10.0), q.missed) == ("a", "")


def test_a_preferred_size_closes_a_batch_where_more_gain_nothing() -> None:
    flat_then_steep = {1: 1.0, 2: 1.1, 4: 3.0}
    q = Queue(flat_then_steep, preferred=(2, 4))
    for name in "abc":
        q.add(name)
    assert (q.take(0.0), q.why) == ("ab", "preferred")
    assert (q.take(2.0), q.why) == ("c", "idle")
    wide = Queue(flat_then_steep, preferred=(2, 4))
    wide.add("w", n=4)  # whole, though it is wider
    assert (wide.take(0.0), wide.why) == ("w", "preferred")


def test_a_machine_slower_than_promised_gives_up_the_late_and_runs_the_rest() -> None:
    q = Queue()
    q.add("late", deadline=3.0)
    q.add("p")
    assert (q.take(2.0), q.missed) == ("p", "late")


def test_as_few_as_possible_are_given_up() -> None:
    q = Queue()
    for name, deadline in (("a", 4.0), ("b", 2.6), ("c", 4.0), ("d", 2.5)):
        q.add(name, deadline=deadline)
    assert (q.take(1.0), q.missed) == ("ac", "db")  # 1.0 + 1.5; with b it would be 3.0


def test_a_batch_of_late_ones_only_holds_nothing_to_run() -> None:
    q = Queue()
    q.add("a", deadline=3.0)
    assert (q.take(2.9), q.missed) == ("", "a")
    assert q.batch is not None
    q.ran(2.9)
    assert q.add("b", 2.9) == pytest.approx(3.9)


def test_the_gap_between_batches_is_learnt_and_counts() -> None:
    q = Queue(size_max=1, depth_max=100)
    now = 0.0
    for _ in range(60):
        q.add("a", now)
        q.add("a", now)
        q.take(now)
        q.ran(now + 1.0)
        q.take(now + 1.1)  # a tenth after the one before it ended
        q.ran(now + 2.1)
        now += 10.0
    q.add("a", now)
    assert q.add("b", now) == pytest.approx(now + 2.05, abs=0.01)  # half of the batches waited


def test_a_gap_that_was_a_hiccup_is_forgotten_though_everybody_is_refused() -> None:
    q = Queue({1: 0.001}, size_max=1, p99_s=0.003)
    q.add("a")
    q.add("b")
    q.take(0.0)
    q.ran(0.001)
    q.take(100.0)
    now, refused = 100.0, 0
    q.ran(now)
    for _ in range(200):
        q.add("a", now)
        try:
            q.add("b", now)
        except QueueFull:
            refused += 1
        while q.take(now):
            q.ran(now)
    assert 0 < refused < 100


def test_what_the_curve_learns_is_used_for_the_next() -> None:
    q = Queue(size_max=1)
    q.add("a")
    q.take(0.0)
    for _ in range(200):
        q.curve.observe(1, 2.0)
    q.ran(2.0)
    assert q.add("b", 2.0) == pytest.approx(4.0, rel=0.03)


def test_the_queue_timeout_takes_out_who_waited_too_long() -> None:
    q = Queue(queue_s_max=(5.0, inf, inf))
    q.add("a")
    q.take(0.0)
    q.add("b", 1.0)
    assert q.q.expires_at <= 6.0
    assert q.q.expire(5.9) == []
    assert [job.name for job in q.q.expire(6.1)] == ["b"]
    assert (q.q.depth, q.q.expires_at) == (0, inf)


def test_a_wait_that_would_outlast_the_queue_timeout_is_refused_at_once() -> None:
    q = Queue(size_max=1, queue_s_max=(1.5, inf, inf))
    q.add("a")
    q.add("b")
    with pytest.raises(QueueFull):
        q.add("c")


def test_who_cannot_be_in_time_any_more_is_taken_out_while_another_batch_runs() -> None:
    q = Queue()
    q.add("a")
    q.take(0.0)
    q.add("b", deadline=4.0)
    q.add("c")
    assert q.q.expires_at == pytest.approx(3.0)
    assert [job.name for job in q.q.expire(3.1)] == ["b"]
    q.ran(3.2)
    assert q.take(3.2) == "c"


def test_those_who_wait_are_not_looked_through_at_every_call() -> None:
    q = Queue({1: 0.0})
    q.add("a", deadline=0.0101)
    q.add("b", deadline=0.0102)
    q.q.expire(0.01)
    assert q.q.expires_at == pytest.approx(0.011)


def test_near_line_and_bulk_wait_for_interactive_ones_and_fill_what_is_left() -> None:
    q = Queue({1: 1.0, 4: 1.03}, bulk_share=1.0)
    q.add("n", priority=NEAR_LINE)
    q.add("b", priority=BULK)
    q.add("i")
    assert (q.take(0.0), q.why) == ("inb", "idle")


def test_near_line_goes_before_bulk() -> None:
    q = Queue({1: 1.0, 4: 1.03}, size_max=2, bulk_share=1.0)
    q.add("b", priority=BULK)
    q.add("n", priority=NEAR_LINE)
    q.add("i")
    assert (q.take(0.0), q.why) == ("in", "full")
    q.ran(1.01)
    assert q.take(1.01) == "b"


def test_a_batch_that_others_wait_behind_is_not_filled_up() -> None:
    q = Queue({1: 1.0, 4: 1.03}, bulk_share=1.0)
    q.add("b", priority=BULK)
    q.add("i", n=2)
    q.add("j", n=3)
    assert q.take(0.0) == "i"


def test_filling_up_costs_an_interactive_job_no_more_than_its_share() -> None:
    q = Queue(p99_s=10.0, bulk_share=0.11)  # 0.55 s: half of it; a second row costs 0.5
    for name in "bcd":
        q.add(name, priority=BULK)
    q.add("i")
    assert q.take(0.0) == "ib"


def test_filling_up_makes_nobody_late() -> None:
    q = Queue(p99_s=10.0, bulk_share=1.0)
    for name in "bcd":
        q.add(name, priority=BULK)
    q.add("i", deadline=1.9)
    assert q.take(0.0) == "ib"
    near = Queue(p99_s=10.0, bulk_share=1.0)
    near.add("n", deadline=1.9, priority=NEAR_LINE)
    near.add("b", priority=BULK)
    near.add("i")
    assert near.take(0.0) == "in"


def test_a_batch_of_bulk_is_short() -> None:
    q = Queue({1: 1.0, 4: 4.0}, p99_s=20.0, bulk_share=0.25)
    for name in "bcdef":
        q.add(name, priority=BULK)
    assert q.q.rows_max(BULK) == 2
    assert (q.take(0.0), q.why) == ("bc", "idle")
    assert q.add("i", 0.0) == pytest.approx(3.0)


def test_without_a_target_bulk_may_cost_a_batch_in_all() -> None:
    q = Queue({1: 1.0, 4: 4.0}, bulk_share=0.01)
    assert q.q.rows_max(BULK) == 2


def test_bulk_wider_than_a_short_batch_is_to_be_split() -> None:
    q = Queue({1: 1.0, 4: 4.0}, p99_s=20.0, bulk_share=0.25)
    with pytest.raises(TooLarge, match="2 are the most at priority 3: split it"):
        q.add("b", n=3, priority=BULK)


def test_one_row_of_bulk_runs_however_slow_the_model() -> None:
    q = Queue(p99_s=0.1)
    q.add("b", priority=BULK)
    assert q.take(0.0) == "b"


def test_bulk_that_has_become_too_wide_on_a_slower_machine_still_runs() -> None:
    q = Queue({1: 1.0, 4: 4.0}, p99_s=20.0, bulk_share=0.25)
    q.add("a")
    q.take(0.0)
    q.add("b", n=2, priority=BULK)
    for _ in range(200):
        q.curve.observe(1, 5.0)
    q.ran(5.0)
    assert q.q.rows_max(BULK) == 1
    assert q.take(5.0) == "b"


def test_a_flood_of_bulk_takes_no_place_of_an_interactive_job() -> None:
    q = Queue({1: 1.0, 4: 1.03}, bulk_share=1.0, depth_max=4)
    for _ in range(4):
        q.add("b", priority=BULK)
    with pytest.raises(QueueFull):
        q.add("b", priority=BULK)
    q.add("n", priority=NEAR_LINE)
    q.add("i")
    assert q.q.depth == 6


def test_near_line_is_admitted_only_if_it_can_be_in_time() -> None:
    q = Queue({1: 1.0, 4: 4.0}, p99_s=40.0, bulk_share=0.1, depth_max=100)  # two at a time
    q.add("i", n=4)
    q.add("j", n=4)
    for _ in range(3):
        q.add("n", priority=NEAR_LINE)
    due = q.add("o", priority=NEAR_LINE)
    assert due == pytest.approx(8.0 + 2.0 + 1.0 + 1.0)
    with pytest.raises(QueueFull):
        q.add("p", deadline=12.9, priority=NEAR_LINE)
    with pytest.raises(DeadlineMissed):
        q.add("p", deadline=0.9, priority=NEAR_LINE)
    assert q.add("b", priority=BULK) == pytest.approx(13.0)
    assert q.add("c", priority=BULK) == pytest.approx(14.0)


def test_near_line_that_interactive_load_pushed_past_its_deadline_is_given_up() -> None:
    q = Queue(depth_max=100)
    q.add("n", deadline=4.0, priority=NEAR_LINE)
    q.add("b", priority=BULK)
    for name in "ijkl":
        q.add(name)
    assert q.take(0.0) == "ijkl"
    for name in "mopq":
        q.add(name, 1.0)
    assert q.q.expires_at == pytest.approx(3.0)
    q.ran(2.5)
    assert q.take(2.5) == "mopq"
    assert [job.name for job in q.q.expire(3.1)] == ["n"]
    q.ran(5.0)
    assert q.take(5.0) == "b"


def test_near_line_is_given_up_when_a_batch_leaves_too() -> None:
    """On the event loop no timer gets its turn between batches."""
    q = Queue(depth_max=100)
    q.add("n", deadline=4.0, priority=NEAR_LINE)
    q.add("i", 3.5, n=4)
    assert (q.take(3.5), q.missed) == ("i", "n")


def test_a_queue_timeout_of_bulk_is_its_own() -> None:
    q = Queue({1: 1.0, 4: 1.03}, bulk_share=1.0, queue_s_max=(inf, inf, 2.0))
    q.add("i")
    q.take(0.0)
    q.add("b", priority=BULK)
    q.add("n", priority=NEAR_LINE)
    assert [job.name for job in q.q.expire(2.1)] == ["b"]
    assert q.q.depth == 1


def test_near_line_that_would_wait_longer_than_it_may_is_refused_at_once() -> None:
    q = Queue(queue_s_max=(inf, 2.0, inf))
    q.add("i", n=4)
    with pytest.raises(QueueFull):
        q.add("n", priority=NEAR_LINE)
    q.add("b", priority=BULK)


def test_bulk_runs_where_a_whole_batch_was_late() -> None:
    q = Queue()
    q.add("i", deadline=3.0)
    q.add("b", priority=BULK)
    assert q.q.expire(1.9995) == []  # and not again within the millisecond
    assert (q.take(2.0003), q.missed, q.why) == ("b", "i", "idle")


def test_the_most_urgent_of_those_who_wait_says_when_to_look() -> None:
    q = Queue()
    q.add("a", deadline=100.0)
    q.add("b", deadline=50.0)
    assert q.q.expires_at == pytest.approx(49.0)


STEP = {1: 1.0, 4: 1.0}  # a batch costs the same whatever its size


def busy(**rules: object) -> tuple[Queue, float]:
    """A queue that has seen about twenty rows a second, and the time."""
    q = Queue(STEP, **rules)
    for n in range(100):
        q.q._arrivals.saw(1, n * 0.05)
    return q, 5.0


def test_company_that_is_expected_soon_is_waited_for_until_it_is_there() -> None:
    q, now = busy(wait_s_max=0.5)
    q.add("a", now)
    assert q.take(now) == ""
    assert now < q.q.leaves_at <= now + 0.5
    for name in "bcd":
        q.add(name, now + 0.1)
    assert (q.take(now + 0.1), q.why) == ("abcd", "full")


def test_at_the_preferred_size_that_was_waited_for_it_leaves() -> None:
    q, now = busy(wait_s_max=0.15, preferred=(2, 4))
    q.add("a", now)
    assert q.take(now) == ""
    q.add("b", now + 0.05)
    assert (q.take(now + 0.05), q.why) == ("ab", "preferred")


def test_company_that_does_not_come_is_not_waited_for_longer() -> None:
    q, now = busy(wait_s_max=0.5)
    q.add("a", now)
    assert q.take(now) == ""
    due = q.q.leaves_at
    assert q.take(due - 0.01) == ""
    assert (q.take(due), q.why) == ("a", "due")


def test_at_low_load_nobody_waits() -> None:
    q = Queue(STEP, wait_s_max=0.5)
    for now in (0.0, 10.0, 20.0):
        q.add("a", now)
        assert (q.take(now), q.why) == ("a", "idle")
        q.ran(now)


def test_waiting_takes_half_of_what_there_is_to_spare_and_no_more() -> None:
    q, now = busy(wait_s_max=0.5)
    q.add("a", now, deadline=now + 1.2)  # company comes in 0.15 s or so
    assert (q.take(now), q.why) == ("a", "idle")


def test_an_urgent_one_that_joins_a_wait_cuts_it_short() -> None:
    q, now = busy(wait_s_max=0.5)
    q.add("a", now)
    assert q.take(now) == ""
    q.add("u", now, deadline=now + 1.1)
    assert q.q.leaves_at == pytest.approx(now + 0.05)


def test_while_bulk_waits_nobody_waits_for_company() -> None:
    q, now = busy(wait_s_max=0.5, bulk_share=1.0)
    q.add("a", now)
    q.add("b", now, priority=BULK)
    assert q.take(now)[0] == "a"


def test_draining_ends_a_wait() -> None:
    q, now = busy(wait_s_max=0.5)
    q.add("a", now)
    assert q.take(now) == ""
    q.q.drain()
    assert (q.take(now), q.why) == ("a", "drained")


def test_those_of_a_batch_that_failed_run_again_without_others_if_there_is_time() -> None:
    q = Queue()
    q.add("b", priority=BULK)
    again = q.q.again([Waiter("a", deadline=2.0)], 0.5)
    assert ([job.name for job in again.jobs], again.why) == (["a"], "again")
    assert q.add("i", 0.5) == pytest.approx(2.5)
    q.q.ran(again, 1.5)
    some = q.q.again([Waiter("c", deadline=2.0), Waiter("d")], 1.5)
    assert [job.name for job in some.missed] == ["c"]
    assert ([job.name for job in some.jobs], some.rows) == (["d"], 1)


def test_with_two_lanes_what_waits_is_spread_over_both() -> None:
    q = BatchQueue[Waiter](LatencyCurve({1: 1.0}), BatchRules(size_max=1, depth_max=8), lanes=2)
    assert q.add(Waiter("a"), 0.0) == pytest.approx(1.0)
    first = q.take(0.0)
    assert q.add(Waiter("b"), 0.5) == pytest.approx(1.5)
    second = q.take(0.5)
    assert q.add(Waiter("c"), 0.5) == pytest.approx(2.25)  # Graham's bound; it is 2.0
    assert first is not None
    q.ran(first, 1.0)
    assert q.add(Waiter("d"), 1.0) == pytest.approx(2.5)
    assert second is not None
    q.ran(second, 1.5)


@pytest.mark.parametrize(
    "rules",
    [
        {"size_max": 9}, {"size_max": 0}, {"preferred": (4, 2)}, {"preferred": (0,)},
        {"preferred": (5,)}, {"p99_s": 0.0}, {"p99_s": float("nan")}, {"wait_s_max": -1.0},
        {"wait_s_max": inf}, {"bulk_share": 0.0}, {"bulk_share": 1.1},
        {"queue_s_max": (1.0, 0.0, 1.0)}, {"queue_s_max": (float("nan"), 1.0, 1.0)},
    ],
)  # fmt: skip
def test_rules_that_contradict_each_other_are_refused(rules: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(rules))):
        Queue(**rules)


def test_a_machine_that_was_suspended_is_not_taken_for_a_slow_one() -> None:
    q = Queue(size_max=1, depth_max=100)
    q.add("a")
    q.add("b")
    q.take(0.0)
    q.ran(1.0)
    q.take(3600.0)
    q.ran(3601.0)
    assert q.add("c", 3601.0) == pytest.approx(3602.0)
    assert q.add("d", 3601.0) == pytest.approx(3603.0, abs=0.1)


def test_filling_up_keeps_to_the_target_of_those_who_are_in() -> None:
    q = Queue(p99_s=10.0, bulk_share=1.0)
    q.add("b", n=3, priority=BULK)
    q.add("i", deadline=2.4)  # the four would take 2.5
    assert q.take(0.0) == "i"


def test_a_near_line_job_that_fills_up_is_not_made_late_by_those_before_it() -> None:
    q = Queue(p99_s=10.0, bulk_share=1.0)
    q.add("n", deadline=2.4, n=3, priority=NEAR_LINE)
    q.add("i")
    assert q.take(0.0) == "i"
    q.ran(0.1)
    assert q.take(0.1) == "n"


def test_with_two_lanes_one_that_is_free_is_taken_at_once() -> None:
    q = BatchQueue[Waiter](LatencyCurve({1: 5.0}), BatchRules(size_max=1), lanes=2)
    q.add(Waiter("a"), 0.0)
    q.take(0.0)
    assert q.add(Waiter("b"), 0.0) == pytest.approx(5.0)
