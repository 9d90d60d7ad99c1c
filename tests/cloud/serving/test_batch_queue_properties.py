"""What holds for any arrivals: promises, order, bounds, and that the short way in is the long one.

`Server` is the shell in virtual time: it runs a batch for as long as the curve says.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.serving.batch import Batch
from cloud.serving.batch_queue import BatchQueue
from cloud.serving.batch_rules import BatchRules
from cloud.serving.latency_curve import LatencyCurve
from cloud.serving.refusal import QueueFull
from shared.errors import DeadlineMissed, TooLarge
from tests.cloud.serving.waiter import BULK, INTERACTIVE, NEVER, Waiter

CURVES = (
    {1: 1.0, 2: 1.5, 4: 2.5},
    {1: 1.0, 6: 1.0},  # a batch costs the same whatever its size
    {1: 1.0, 6: 6.0},  # nothing is gained by a batch
    {1: 0.0},
)
NEAR = 1e-6


@dataclass(frozen=True)
class Arrival:
    gap_s: float
    budget_s: float
    rows: int
    priority: int


RULES = st.builds(
    BatchRules,
    size_max=st.integers(1, 6), depth_max=st.integers(6, 14),
    preferred=st.sampled_from([(), (1,)]), p99_s=st.sampled_from([None, 0.5, 4.0]),
    wait_s_max=st.sampled_from([0.0, 0.7]), bulk_share=st.sampled_from([0.1, 1.0]),
    queue_s_max=st.sampled_from([(inf, inf, inf), (3.0, 5.0, 7.0)]),
)  # fmt: skip
ARRIVALS = st.lists(
    st.builds(
        Arrival,
        st.sampled_from([0.0, 0.0, 0.3]) | st.floats(0, 2),
        st.floats(0, 12) | st.just(NEVER),
        st.integers(1, 4), st.sampled_from([1, 1, 1, 2, 3]),
    ),
    max_size=50,
)  # fmt: skip


class Longhand(BatchQueue[Waiter]):
    """Every job goes the long way."""

    def add(self, job: Waiter, now: float) -> float:
        job.added = now
        return self._add(job, now)


@dataclass
class Server:
    """Runs batches exactly as long as the curve says, one after the other, as the shell does."""

    q: BatchQueue[Waiter]
    curve: LatencyCurve
    rules: BatchRules
    running: tuple[Batch[Waiter], float] | None = None
    ended: list[tuple[Waiter, str, float]] = field(default_factory=list)
    log: list[object] = field(default_factory=list)

    def advance(self, until: float) -> None:
        """Let everything happen that is due by then."""
        now = 0.0
        while True:
            if self.running is not None:
                batch, now = self.running
                if now > until:
                    break
                self.q.ran(batch, now)
                self.running = None
            elif self.q.depth and self.q.leaves_at:  # waits for company
                now = self.q.leaves_at
                if now > until:
                    break
            else:
                break
            self.start(now)
        if self.q.expires_at < until:
            self.ended += [(job, "expired", until) for job in self.q.expire(until)]

    def start(self, now: float) -> None:
        """The loop's flush."""
        while self.running is None and self.q.depth:
            batch = self.q.take(now)
            if batch is None:
                return
            self.ended += [(job, "missed", now) for job in batch.missed]
            self.log.append((now, [job.name for job in batch.jobs], batch.why))
            if batch.jobs:
                done = now + self.curve.cost_s(batch.rows)
                self.running = batch, done
                self.ended += [(job, "answered", done) for job in batch.jobs]
                self.check(batch)

    def check(self, batch: Batch[Waiter]) -> None:
        assert batch.rows == sum(job.n for job in batch.jobs)
        assert batch.rows <= self.rules.size_max
        assert [job.priority for job in batch.jobs] == sorted(job.priority for job in batch.jobs)
        assert batch.why in {"full", "preferred", "idle", "due", "drained"}


def waiting(q: BatchQueue[Waiter]) -> list[Waiter]:
    return [job for batch in q._batches for job in batch.jobs] + [
        job for line in q._background._lines for job in line
    ]


def in_step(q: BatchQueue[Waiter], rules: BatchRules) -> None:
    """What is counted along is what is there."""
    jobs = waiting(q)
    for priority in (1, 2, 3):
        assert sum(job.n for job in jobs if job.priority == priority) <= rules.depth_max
    assert q.depth == sum(job.n for job in jobs)
    closed = list(q._batches)[:-1]
    assert q._ahead_s == pytest.approx(sum(q._pace.batch_s(batch.rows) for batch in closed))
    for batch in q._batches:
        assert batch.rows == sum(job.n for job in batch.jobs)
        assert batch.limit <= min(job.deadline for job in batch.jobs)
    assert all(q.expires_at <= q._expiry(job) + 0.001 + NEAR for job in jobs)


def play(
    q: BatchQueue[Waiter], curve: LatencyCurve, rules: BatchRules, arrivals: Sequence[Arrival]
) -> tuple[Server, list[Waiter], list[object]]:
    server, now = Server(q, curve, rules), 0.0
    admitted: list[Waiter] = []
    said: list[object] = []
    for n, arrival in enumerate(arrivals):
        if arrival.gap_s:  # else it comes in the same poll as the one before
            server.start(now)
            in_step(q, rules)
            now += arrival.gap_s
            server.advance(now)
        job = Waiter(str(n), arrival.rows, now + arrival.budget_s, arrival.priority)
        try:
            said.append(round(q.add(job, now), 9))
            admitted.append(job)
        except (QueueFull, DeadlineMissed, TooLarge) as error:
            said.append(str(error))
        in_step(q, rules)
    server.start(now)
    server.advance(now + 3 * NEVER)
    assert q.depth == 0
    return server, admitted, said


@given(st.sampled_from(CURVES), RULES, ARRIVALS)
def test_every_admitted_job_ends_once_in_order_and_no_promise_is_broken(
    measured: dict[int, float], rules: BatchRules, arrivals: list[Arrival]
) -> None:
    curve = LatencyCurve(measured)
    server, admitted, _ = play(BatchQueue[Waiter](curve, rules), curve, rules, arrivals)
    assert sorted(map(id, admitted)) == sorted(id(job) for job, _, _ in server.ended)
    answered = [job for job, how, _ in server.ended if how == "answered"]
    for priority in (1, 2, 3):
        of_one = [job for job in answered if job.priority == priority]
        assert of_one == [job for job in admitted if job in of_one]
    for job, how, done in server.ended:
        if job.priority == INTERACTIVE:
            assert how == "answered", f"{job} is {how}: a promise was broken"
            assert done - job.added <= (
                inf if rules.p99_s is None else max(rules.p99_s, 2 * curve.cost_s(job.n)) + NEAR
            )
        if how == "answered":
            assert done <= job.deadline + NEAR


@given(st.sampled_from(CURVES), RULES, ARRIVALS)
def test_the_short_way_in_does_what_the_long_one_does(
    measured: dict[int, float], rules: BatchRules, arrivals: list[Arrival]
) -> None:
    curve = LatencyCurve(measured)
    short, _, short_said = play(BatchQueue[Waiter](curve, rules), curve, rules, arrivals)
    long, _, long_said = play(Longhand(curve, rules), curve, rules, arrivals)
    assert short_said == long_said
    assert short.log == long.log
    assert short.q.expires_at == long.q.expires_at


@given(st.sampled_from(CURVES[:3]), RULES, ARRIVALS)
def test_background_delays_an_interactive_job_by_no_more_than_its_share(
    measured: dict[int, float], rules: BatchRules, arrivals: list[Arrival]
) -> None:
    """Against the same interactive arrivals without any: half of the share for the batch that runs
    when it comes (or one row, if a row takes longer) and half for its own. Small delays may add up
    over a busy period, until a second batch waits and nothing is filled up: that is one batch more.
    """
    curve = LatencyCurve(measured)
    whole_s = curve.cost_s(rules.size_max)
    patient = BatchRules(
        size_max=rules.size_max, depth_max=1000, p99_s=1000.0 * whole_s,
        bulk_share=rules.bulk_share / 1000,
    )  # fmt: skip
    half_s = rules.bulk_share * whole_s / 2
    bound_s = max(half_s, curve.cost_s(1)) + half_s + whole_s
    arrivals = [Arrival(a.gap_s, NEVER, 1, a.priority) for a in arrivals]
    interactive: list[Arrival] = []
    names: list[str] = []
    gap_s = 0.0
    for n, arrival in enumerate(arrivals):
        gap_s += arrival.gap_s
        if arrival.priority == INTERACTIVE:
            interactive.append(Arrival(gap_s, NEVER, 1, INTERACTIVE))
            names.append(str(n))
            gap_s = 0.0
    mixed, _, _ = play(BatchQueue[Waiter](curve, patient), curve, patient, arrivals)
    alone, _, _ = play(BatchQueue[Waiter](curve, patient), curve, patient, interactive)
    ends = {job.name: done for job, _, done in mixed.ended}
    for job, _, done in alone.ended:
        assert ends[names[int(job.name)]] <= done + bound_s + NEAR


@pytest.mark.parametrize("load", [0.5, 0.8, 2.0])
def test_whatever_the_load_the_accepted_keep_the_target_and_the_model_keeps_busy(
    load: float,
) -> None:
    """Poisson arrivals for a minute of a model of 1,600 rows a second at its best."""
    rules = BatchRules(size_max=16, p99_s=0.05, depth_max=4096)
    curve = LatencyCurve({1: 0.0025, 16: 0.010})
    q = BatchQueue[Waiter](curve, rules)
    server, rng, now, refused = Server(q, curve, rules), random.Random(4), 0.0, 0
    while now < 60.0:
        now += rng.expovariate(1_600 * load)
        server.advance(now)
        try:
            q.add(Waiter("i", 1, now + 1.0), now)
        except QueueFull:
            refused += 1
        server.start(now)
    took = sorted(at - job.added for job, _, at in server.ended)
    assert all(how == "answered" for _, how, _ in server.ended)
    assert took[-1] <= rules.p99_s + NEAR  # type: ignore[operator]
    assert len(took) / 60 >= 0.97 * 1_600 * min(load, 1.0)
    assert (refused == 0) == (load < 1)


def test_bulk_is_not_starved_but_by_its_own_deadline() -> None:
    """Interactive load that fills every batch: bulk is told when its time is up, not later."""
    rules = BatchRules(size_max=2, depth_max=8)
    curve = LatencyCurve({1: 1.0})
    q = BatchQueue[Waiter](curve, rules)
    server = Server(q, curve, rules)
    bulk = Waiter("b", 1, 20.0, BULK)
    q.add(bulk, 0.0)
    for step in range(40):
        for _ in range(2):
            q.add(Waiter("i", 1), float(step) * 2)
        server.start(float(step) * 2)
        server.advance(float(step + 1) * 2 - NEAR)
    ends = [(how, at) for job, how, at in server.ended if job is bulk]
    assert [how for how, _ in ends] == ["missed"] or [how for how, _ in ends] == ["expired"]
    assert ends[0][1] <= 20.0 + 2.0
