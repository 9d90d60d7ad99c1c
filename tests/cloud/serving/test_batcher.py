"""The real shell. On virtual time where nothing needs a thread: inline batches take no time there."""

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from cloud.serving.batch_rules import BatchRules
from cloud.serving.batcher import Batcher, Draining
from cloud.serving.job import Job, Outputs, Priority, Ran, Rows
from cloud.serving.latency_curve import LatencyCurve
from cloud.serving.refusal import QueueFull
from shared.errors import DeadlineMissed, Disconnected, Malformed, Overloaded
from simulations.virtual_time import run

QUICK = {1: 0.0001}
SLOW = {1: 0.01}
POISON = 13
FAR = 1e9
Predict = Callable[[Sequence[Rows]], Outputs]


class Doubler:
    """Doubles numbers, remembers its batches and the threads that ran them."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[str] = set()

    def __call__(self, rows: Sequence[Rows]) -> Outputs:
        numbers = np.concatenate(rows)
        self.batches.append([int(n) for n in numbers])
        self.threads.add(threading.current_thread().name)
        if POISON in numbers:
            raise Malformed("thirteen")
        doubled = numbers.astype(np.float32)[:, None] * 2
        return Outputs(doubled, doubled)


class Held(Doubler):
    """A batch runs until it is let go; for threads."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.go = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, rows: Sequence[Rows]) -> Outputs:
        self.entered.release()
        assert self.go.acquire(timeout=10)
        return super().__call__(rows)

    async def running(self) -> None:
        assert await asyncio.to_thread(self.entered.acquire, timeout=10)


class Told(Job):
    """Remembers what it is told."""

    def __init__(
        self, *numbers: int, deadline: float = FAR, priority: Priority = Priority.INTERACTIVE
    ) -> None:
        super().__init__(np.array(numbers), deadline, priority)
        self.said: list[object] = []
        self.hung_up = False
        self.then: Callable[[], None] = lambda: None
        self.ended = asyncio.Event()

    @property
    def gone(self) -> bool:
        return self.hung_up

    def answered(self, ran: Ran) -> None:
        self.said.append([int(n) for n in ran.outputs.probabilities[:, 0]])
        self.ended.set()
        self.then()

    def failed(self, error: Exception) -> None:
        self.said.append(error)
        self.ended.set()
        self.then()


def batcher(
    model: Predict, measured: dict[int, float], *, real_time: bool = False,
    on_batch: Callable[[int, float], None] = lambda _rows, _s: None,
    lanes: int = 1, inline_s_max: float = 0.001, **rules: object,
) -> Batcher:  # fmt: skip
    known = BatchRules(**{"size_max": 4, "depth_max": 8, **rules})  # type: ignore[arg-type]  # a test's own keywords
    now = time.monotonic if real_time else asyncio.get_running_loop().time
    return Batcher(
        model, LatencyCurve(measured), rules=known, on_batch=on_batch, lanes=lanes,
        inline_s_max=inline_s_max, now=now,
    )  # fmt: skip


def submitted(b: Batcher, *jobs: Told) -> None:
    for job in jobs:
        b.submit(job)


def test_what_one_round_brings_is_one_batch_and_nothing_waits() -> None:
    async def scenario() -> None:
        b = batcher(model, QUICK)
        jobs = [Told(1), Told(2, 3), Told(4)]
        submitted(b, *jobs)
        await asyncio.sleep(0)
        assert [job.said for job in jobs] == [[[2]], [[4, 6]], [[8]]]
        assert asyncio.get_running_loop().time() == 0.0
        assert b.left["full"] == 1
        submitted(b, last := Told(5))
        await asyncio.sleep(0)
        assert last.said == [[10]]
        assert b.left["idle"] == 1

    model = Doubler()
    run(scenario())
    assert model.batches == [[1, 2, 3, 4], [5]]


def test_between_two_inline_batches_the_loop_has_a_round() -> None:
    async def scenario() -> None:
        b = batcher(model, QUICK, size_max=1)
        submitted(b, first := Told(1), second := Told(2))
        await asyncio.sleep(0)
        assert (first.said, second.said) == ([[2]], [])
        await asyncio.sleep(0)
        assert second.said == [[4]]

    model = Doubler()
    run(scenario())


def test_infer_says_how_long_it_waited_and_ran() -> None:
    async def scenario() -> None:
        clock = iter([1.0, 1.5, 2.0, 4.0])
        curve = LatencyCurve(QUICK)
        b = Batcher(Doubler(), curve, rules=BatchRules(), now=lambda: next(clock))
        ran = await b.infer(np.array([3]), deadline=60.0)
        assert ran.outputs.logits.tolist() == [[6.0]]
        assert (ran.queue_s, ran.run_s) == (1.0, 2.0)
        assert b.busy_s == 2.0
        assert curve.cost_s(1) > QUICK[1]

    run(scenario())


def test_expected_company_is_waited_for_and_the_wait_ends() -> None:
    class Flat(LatencyCurve):
        """A batch costs the same whatever its size; on this clock it takes no time, so it must not
        learn."""

        def observe(self, size: int, took_s: float) -> None:
            assert took_s == 0.0

    async def scenario() -> None:
        b = Batcher(
            model, Flat({1: 0.001, 4: 0.001}), rules=BatchRules(size_max=4, wait_s_max=0.001),
            inline_s_max=1.0, now=asyncio.get_running_loop().time,
        )  # fmt: skip
        for _ in range(2_500):  # ten thousand a second
            submitted(b, Told(0, 0, 0, 0))
            await asyncio.sleep(0.0004)
        submitted(b, first := Told(1))
        await asyncio.sleep(0.0001)
        submitted(b, second := Told(2))
        await asyncio.sleep(0.0001)
        assert (first.said, second.said) == ([], [])
        await asyncio.sleep(0.0002)
        assert (first.said, second.said) == ([[2]], [[4]])
        assert b.left["due"] == 1
        submitted(b, third := Told(3))
        await b.drain()
        assert third.said == [[6]]
        assert b.left["drained"] == 1

    model = Doubler()
    run(scenario())
    assert model.batches[-2:] == [[1, 2], [3]]


def test_draining_answers_what_was_accepted_and_takes_nothing_new() -> None:
    async def scenario() -> None:
        b = batcher(Doubler(), QUICK, size_max=2)
        submitted(b, *(jobs := [Told(1), Told(2), Told(3)]))
        drained = asyncio.ensure_future(b.drain())
        await asyncio.sleep(0)
        with pytest.raises(Draining):
            b.submit(Told(9))
        await drained
        assert [job.said for job in jobs] == [[[2]], [[4]], [[6]]]
        assert b.depth == 0
        await b.drain()

    run(scenario())


def test_what_never_had_work_drains_too() -> None:
    async def scenario() -> None:
        await batcher(Doubler(), QUICK).drain()

    run(scenario())


def test_draining_waits_for_the_thread() -> None:
    async def scenario() -> None:
        b = batcher(model, SLOW, real_time=True, inline_s_max=-1.0, size_max=1)
        submitted(b, first := Told(1), second := Told(2))
        await model.running()
        drained = asyncio.ensure_future(b.drain())
        await asyncio.sleep(0)
        assert not drained.done()
        model.go.release(2)
        await drained
        assert (first.said, second.said) == ([[2]], [[4]])

    model = Held()
    asyncio.run(scenario())


def test_one_client_hanging_up_costs_nothing_and_does_not_hurt_its_batch_mates() -> None:
    async def scenario() -> None:
        b = batcher(model, QUICK)
        submitted(b, first := Told(1), gone := Told(2, 3), last := Told(4))
        gone.hung_up = True
        await asyncio.sleep(0)
        assert (first.said, gone.said, last.said) == ([[2]], [], [[8]])
        submitted(b, alone := Told(5))
        alone.hung_up = True
        await b.drain()
        assert b.depth == 0

    model = Doubler()
    run(scenario())
    assert model.batches == [[1, 4]]


def test_a_cancelled_call_hangs_up() -> None:
    async def scenario() -> None:
        b = batcher(model, QUICK)
        calls = [asyncio.ensure_future(b.infer(np.array([n]), FAR)) for n in range(3)]
        await asyncio.sleep(0)
        calls[1].cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert isinstance(ended[1], asyncio.CancelledError)
        assert [type(one) for one in ended] == [Ran, asyncio.CancelledError, Ran]

    model = Doubler()
    run(scenario())
    assert 1 not in model.batches[-1]


def test_a_client_that_hangs_up_while_its_batch_runs_hurts_nobody() -> None:
    async def scenario() -> None:
        b = batcher(model, SLOW, real_time=True, inline_s_max=-1.0)
        call = asyncio.ensure_future(b.infer(np.array([1]), FAR))
        await asyncio.sleep(0)
        submitted(b, mate := Told(2))
        await model.running()
        call.cancel()
        model.go.release(2)
        await b.drain()
        assert mate.said == [[4]]
        assert b.failed_callbacks == 0

    model = Held()
    asyncio.run(scenario())


@pytest.mark.parametrize("measured", [QUICK, SLOW])
def test_a_bad_sample_fails_alone_and_the_batcher_goes_on(measured: dict[int, float]) -> None:
    async def scenario() -> None:
        b = batcher(model, measured, real_time=True)
        submitted(b, one := Told(1), bad := Told(POISON), two := Told(2), gone := Told(3))
        one.then = lambda: setattr(gone, "hung_up", True)
        await two.ended.wait()
        assert (one.said, two.said) == ([[2]], [[4]])
        assert [type(said) for said in bad.said] == [Malformed]
        submitted(b, after := Told(5))
        await b.drain()
        assert (after.said, gone.said) == ([[10]], [])
        assert (b.left["full"], b.left["again"]) == (1, 3)

    model = Doubler()
    asyncio.run(scenario())
    assert model.batches == [[1, POISON, 2, 3], [1], [POISON], [2], [5]]


def test_values_that_are_not_finite_cost_the_others_one_more_run_together() -> None:
    def predict(rows: Sequence[Rows]) -> Outputs:
        numbers = np.concatenate(rows)
        batches.append(len(numbers))
        if not np.isfinite(numbers).all():
            raise Malformed("row 3 holds NaN")
        return Outputs(numbers[:, None], numbers[:, None])

    async def scenario() -> None:
        b = batcher(predict, QUICK, size_max=16, depth_max=16, inline_s_max=1.0)
        calls = [
            asyncio.ensure_future(b.infer(np.array([n], np.float32), FAR))
            for n in (*range(13), np.nan, np.inf, -np.inf)
        ]
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in ended] == [Ran] * 13 + [Malformed] * 3
        assert str(ended[-1]) == "the input holds NaN or an infinity; send finite numbers"

    batches: list[int] = []
    run(scenario())
    assert batches == [16, 13]


@pytest.mark.parametrize("kind", [Disconnected, Overloaded, DeadlineMissed])
def test_where_another_machine_is_to_blame_nobody_waits_for_it_again(
    kind: type[Exception],
) -> None:
    def away(rows: Sequence[Rows]) -> Outputs:
        runs.append(len(rows))
        raise kind("the other machine")

    async def scenario() -> None:
        b = batcher(away, QUICK)
        submitted(b, *(jobs := [Told(1), Told(2)]))
        await b.drain()
        assert [[type(one) for one in job.said] for job in jobs] == [[kind], [kind]]

    runs: list[int] = []
    run(scenario())
    assert runs == [2]


def test_who_has_no_time_for_another_run_is_told_so() -> None:
    async def scenario() -> None:
        clock = [0.0]
        b = Batcher(
            failing, LatencyCurve(QUICK), rules=BatchRules(), now=lambda: clock[0]
        )  # fmt: skip

        def spend() -> None:
            clock[0] = 10.0

        submitted(b, first := Told(POISON), second := Told(2, deadline=5.0))
        first.then = spend
        await b.drain()
        assert [type(said) for said in second.said] == [DeadlineMissed]
        assert b.missed == 1

    failing = Doubler()
    run(scenario())
    assert failing.batches == [[POISON, 2], [POISON]]


@pytest.mark.parametrize("measured", [QUICK, SLOW])
def test_a_wrong_number_of_outputs_is_an_error(measured: dict[int, float]) -> None:
    def too_few(rows: Sequence[Rows]) -> Outputs:
        return Doubler()(rows)[1:]

    async def scenario() -> None:
        b = batcher(too_few, measured, real_time=True)
        submitted(b, *(jobs := [Told(1), Told(2)]))
        await b.drain()
        assert [str(job.said[0]) for job in jobs] == ["0 outputs for a batch of 1 rows"] * 2

    asyncio.run(scenario())


def test_overload_and_hopeless_deadlines_are_refused_at_once() -> None:
    async def scenario() -> None:
        b = batcher(Doubler(), QUICK)
        submitted(b, *(Told(n) for n in range(8)))
        with pytest.raises(QueueFull) as refused:
            b.submit(Told(9))
        assert refused.value.retry_after_s == pytest.approx(0.0008)
        with pytest.raises(DeadlineMissed):
            batcher(Doubler(), SLOW).submit(Told(1, deadline=0.005))
        await b.drain()

    run(scenario())


@pytest.mark.parametrize(
    ("measured", "inline_s_max", "inline"),
    [(QUICK, 0.001, True), (SLOW, 0.001, False), (QUICK, -1.0, False)],
)
def test_only_a_batch_under_a_millisecond_runs_on_the_event_loop(
    measured: dict[int, float], inline_s_max: float, *, inline: bool
) -> None:
    async def scenario() -> None:
        b = batcher(model, measured, real_time=True, inline_s_max=inline_s_max)
        assert (await b.infer(np.array([1]), FAR)).outputs.logits.tolist() == [[2.0]]
        await b.drain()

    model = Doubler()
    asyncio.run(scenario())
    assert (model.threads == {threading.main_thread().name}) == inline
    assert len(model.threads) == 1


def test_a_batch_that_waited_for_the_interpreters_lock_is_not_long() -> None:
    """Else what a thread does to a batch's time would keep it in the thread."""

    async def scenario() -> None:
        curve = LatencyCurve({1: 0.0008})
        for n in range(200):
            curve.observe(1, 0.0004 if n % 2 else 0.004)
        assert curve.cost_s(1) > 0.001
        b = Batcher(model, curve, rules=BatchRules())
        await b.infer(np.array([1]), FAR)

    model = Doubler()
    asyncio.run(scenario())
    assert model.threads == {threading.main_thread().name}


def test_a_callback_that_raises_is_logged_counted_and_hurts_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As a closed uvloop transport does when it is written to."""

    def closed() -> None:
        raise RuntimeError("the transport is closed")

    async def scenario() -> None:
        b = batcher(Doubler(), QUICK)
        jobs = [Told(1), Told(2), Told(3), Told(POISON), Told(5)]
        jobs[0].then = jobs[1].then = jobs[3].then = closed
        submitted(b, jobs[0], jobs[2], jobs[1])
        await asyncio.sleep(0)
        submitted(b, *jobs[3:])
        await b.drain()
        assert (jobs[2].said, jobs[4].said) == ([[6]], [[10]])
        assert b.failed_callbacks == 3

    with caplog.at_level(logging.ERROR):
        run(scenario())
    lines = [record for record in caplog.records if record.message == "batch_callback_raised"]
    assert [record.callback for record in lines] == ["answered", "failed"]
    assert all(record.exc_info for record in lines)


def test_what_counts_batches_may_raise_too() -> None:
    def on_batch(rows: int, _run_s: float) -> None:
        counted.append(rows)
        raise KeyError(rows)

    async def scenario() -> None:
        b = batcher(Doubler(), QUICK, on_batch=on_batch)
        submitted(b, job := Told(1, 2))
        await b.drain()
        assert job.said == [[2, 4]]
        assert b.failed_callbacks == 1

    counted: list[int] = []
    run(scenario())
    assert counted == [2]


def test_who_waits_too_long_is_told_while_the_thread_is_busy() -> None:
    async def scenario() -> None:
        b = batcher(model, SLOW, real_time=True, inline_s_max=-1.0, queue_s_max=(60.0, 60.0, 0.05))
        submitted(b, running := Told(1))
        await model.running()
        now = time.monotonic()
        submitted(
            b,
            patient := Told(2),
            late := Told(3, deadline=now + 0.3),
            bulk := Told(4, priority=Priority.BULK),
        )
        async with asyncio.timeout(10):
            await late.ended.wait()
            await bulk.ended.wait()
        assert [type(job.said[0]) for job in (late, bulk)] == [DeadlineMissed] * 2
        assert running.said == []
        assert (b.missed, b.depth) == (2, 1)
        model.go.release(2)
        await b.drain()
        assert (running.said, patient.said) == ([[2]], [[4]])

    model = Held()
    asyncio.run(scenario())
    assert model.batches == [[1], [2]]


def test_who_waited_already_when_the_thread_got_its_batch_is_told_too() -> None:
    async def scenario() -> None:
        b = batcher(model, SLOW, real_time=True, inline_s_max=-1.0, size_max=1)
        late = Told(2, deadline=time.monotonic() + 0.2)
        submitted(b, running := Told(1), late)
        async with asyncio.timeout(10):
            await late.ended.wait()
        assert [type(said) for said in late.said] == [DeadlineMissed]
        model.go.release()
        await b.drain()
        assert running.said == [[2]]

    model = Held()
    asyncio.run(scenario())


def test_the_thread_gets_its_next_batch_before_the_answers_are_handed_on() -> None:
    async def scenario() -> None:
        b = batcher(model, SLOW, real_time=True, inline_s_max=-1.0, size_max=1)
        submitted(b, first := Told(1), second := Told(2))
        await model.running()
        seen: list[bool] = []
        first.then = lambda: seen.append(model.entered.acquire(timeout=10))
        model.go.release()
        await first.ended.wait()
        assert seen == [True]
        model.go.release()
        await b.drain()
        assert second.said == [[4]]

    model = Held()
    asyncio.run(scenario())


@pytest.mark.parametrize("measured", [QUICK, SLOW])
def test_an_answer_may_bring_the_next_job(measured: dict[int, float]) -> None:
    """As a pipelined request does."""

    async def scenario() -> None:
        b = batcher(Doubler(), measured, real_time=True)
        first, second, third = Told(1), Told(2), Told(3)
        first.then = lambda: b.submit(second)
        second.then = lambda: b.submit(third)
        b.submit(first)
        async with asyncio.timeout(10):
            await third.ended.wait()
        await b.drain()
        assert third.said == [[6]]

    asyncio.run(scenario())


def test_it_is_busy_while_work_waits_or_runs() -> None:
    async def scenario() -> None:
        b = batcher(model, SLOW, real_time=True, inline_s_max=-1.0)
        assert not b.busy
        submitted(b, job := Told(1))
        assert b.busy
        await model.running()
        assert b.busy
        model.go.release()
        await job.ended.wait()
        assert not b.busy

    model = Held()
    asyncio.run(scenario())


def test_after_a_long_batch_a_short_one_may_run_on_the_loop() -> None:
    async def scenario() -> None:
        b = batcher(model, {1: 0.0001, 4: 0.01}, real_time=True)
        submitted(b, wide := Told(1, 2, 3, 4), short := Told(5))
        await b.drain()
        assert (wide.said, short.said) == ([[2, 4, 6, 8]], [[10]])

    model = Doubler()
    asyncio.run(scenario())
    assert len(model.threads) == 2


def test_interactive_goes_first_and_the_rest_is_counted_apart() -> None:
    async def scenario() -> None:
        b = batcher(model, QUICK, bulk_share=1.0, size_max=2)
        submitted(
            b, Told(1, priority=Priority.BULK), Told(2, priority=Priority.NEAR_LINE), Told(3, 4)
        )
        await b.drain()
        assert dict(b.left_by_priority) == {
            Priority.INTERACTIVE: 1, Priority.NEAR_LINE: 1, Priority.BULK: 1,
        }  # fmt: skip
        assert b.rows_max(Priority.BULK) == 1

    model = Doubler()
    run(scenario())
    assert model.batches == [[3, 4], [2], [1]]


def test_with_lanes_so_many_batches_run_at_once() -> None:
    async def scenario() -> None:
        b = batcher(model, QUICK, real_time=True, size_max=1, lanes=2)
        submitted(b, *(jobs := [Told(1), Told(2), Told(3)]))
        await model.running()
        await model.running()
        assert b.depth == 1
        assert not model.entered.acquire(blocking=False)
        model.go.release(3)
        await b.drain()
        assert [job.said for job in jobs] == [[[2]], [[4]], [[6]]]

    model = Held()
    asyncio.run(scenario())


def test_jobs_that_answers_bring_do_not_get_more_lanes_than_there_are() -> None:
    async def scenario() -> None:
        b = batcher(model, QUICK, real_time=True, size_max=1, lanes=2)
        submitted(b, first := Told(1))
        await model.running()
        more = [Told(2), Told(3), Told(4)]
        first.then = lambda: submitted(b, *more)
        model.go.release()
        await model.running()
        await model.running()
        await asyncio.sleep(0)
        assert b.depth == 1
        model.go.release(3)
        await b.drain()
        assert [job.said for job in more] == [[[4]], [[6]], [[8]]]

    model = Held()
    asyncio.run(scenario())


def test_draining_waits_for_every_lane() -> None:
    async def scenario() -> None:
        b = batcher(model, QUICK, real_time=True, size_max=1, lanes=2)
        submitted(b, job := Told(1))
        await model.running()
        drained = asyncio.ensure_future(b.drain())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not drained.done()
        model.go.release()
        await drained
        assert job.said == [[2]]

    model = Held()
    asyncio.run(scenario())


def test_a_late_comer_takes_a_lane_that_is_free() -> None:
    async def scenario() -> None:
        b = batcher(model, QUICK, real_time=True, size_max=1, lanes=2)
        submitted(b, first := Told(1))
        await model.running()
        submitted(b, second := Told(2))
        await model.running()
        model.go.release(2)
        await b.drain()
        assert (first.said, second.said) == ([[2]], [[4]])

    model = Held()
    asyncio.run(scenario())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("inline_s_max", "lanes"), [(1.0, 1), (-1.0, 1), (0.00025, 1), (-1.0, 3)]
)  # inline, in a thread, the long ones in a thread, in three
def test_whatever_happens_each_admitted_job_is_told_once(
    inline_s_max: float, lanes: int, seed: int
) -> None:
    """Jobs of all kinds, poison, hang-ups, callbacks that raise or bring more, a drain amid it."""

    def raising() -> None:
        raise RuntimeError("the transport is closed")

    async def scenario() -> None:
        rng = random.Random(seed)
        b = batcher(
            Doubler(), QUICK, real_time=True, lanes=lanes, inline_s_max=inline_s_max,
            depth_max=40, queue_s_max=(5.0, 5.0, 5.0),
        )  # fmt: skip
        admitted: list[Told] = []

        def one() -> None:
            numbers = [POISON if rng.random() < 0.03 else rng.randrange(12)]
            numbers += [1] * rng.choice((0, 0, 0, 1, 3))
            priority = rng.choice(list(Priority))
            job = Told(*numbers[: b.rows_max(priority)], priority=priority)
            job.deadline = time.monotonic() + rng.choice((0.002, 0.02, 60.0))
            job.then = rng.choice((lambda: None, lambda: None, raising, one))
            try:
                b.submit(job)
            except (QueueFull, DeadlineMissed, Draining):
                return
            job.hung_up = rng.random() < 0.05
            admitted.append(job)

        for _ in range(60):
            for _ in range(rng.randrange(8)):
                one()
            await asyncio.sleep(0 if rng.random() < 0.8 else 0.001)
        await b.drain()
        await asyncio.sleep(0)
        assert len(admitted) > 60
        for job in admitted:
            assert len(job.said) == 1 or (job.hung_up and not job.said)
            for said in job.said:
                doubled = [2 * int(n) for n in job.rows]
                assert said == doubled or isinstance(said, DeadlineMissed | Malformed)
                assert not isinstance(said, Malformed) or POISON in job.rows
        assert b.depth == 0
        assert not b.busy

    asyncio.run(scenario())
