"""The real shell on virtual time: same code, no waiting. Inline batches take no time there."""

import asyncio
import threading
import time
from collections.abc import Sequence

import pytest

from cloud.serving.batch_queue import QueueFull
from cloud.serving.batcher import Batcher, Draining
from cloud.serving.latency_curve import LatencyCurve
from shared.errors import DeadlineMissed, Malformed
from simulations.virtual_time import run

QUICK = {1: 0.0001}
SLOW = {1: 0.01}
POISON = 13


class Doubler:
    """Doubles numbers, remembers its batches and the threads that ran them."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.threads: set[str] = set()

    def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.batches.append(list(numbers))
        self.threads.add(threading.current_thread().name)
        if POISON in numbers:
            raise Malformed("thirteen")
        return [number * 2 for number in numbers]


def batcher(
    model: Doubler, measured: dict[int, float], *, size_max: int = 4, wait_s_max: float = 0.0
) -> Batcher[int, int]:
    return Batcher(
        model, LatencyCurve(measured), size_max=size_max, wait_s_max=wait_s_max, depth_max=8,
        now=asyncio.get_running_loop().time,
    )  # fmt: skip


async def answers(b: Batcher[int, int], numbers: Sequence[int]) -> list[int | BaseException]:
    calls = [b.infer(number, deadline=60.0) for number in numbers]
    return [
        one if isinstance(one, BaseException) else one.answer
        for one in await asyncio.gather(*calls, return_exceptions=True)
    ]


def test_what_one_round_brings_is_one_batch_and_nothing_waits() -> None:
    async def scenario() -> float:
        b = batcher(model, QUICK)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(b.run())
            assert await answers(b, [1, 2, 3]) == [2, 4, 6]
            b.drain()
        return asyncio.get_running_loop().time()

    model = Doubler()
    assert run(scenario()) == 0.0
    assert model.batches == [[1, 2, 3]]


def test_a_configured_wait_collects_company_and_no_longer() -> None:
    async def scenario() -> float:
        b = batcher(model, QUICK, wait_s_max=0.5)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(b.run())
            first = tasks.create_task(b.infer(1, deadline=60.0))
            await asyncio.sleep(0.4)
            assert await answers(b, [2]) == [4]
            assert first.done()
            b.drain()
        return asyncio.get_running_loop().time()

    model = Doubler()
    assert run(scenario()) == pytest.approx(0.5)
    assert model.batches == [[1, 2]]


def test_draining_answers_what_was_accepted_and_takes_nothing_new() -> None:
    async def scenario() -> list[int | BaseException]:
        b = batcher(Doubler(), QUICK, size_max=2)
        async with asyncio.TaskGroup() as tasks:
            accepted = tasks.create_task(answers(b, [1, 2, 3]))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            b.drain()
            with pytest.raises(Draining):
                await b.infer(9, deadline=60.0)
            tasks.create_task(b.run())
        return accepted.result()

    assert run(scenario()) == [2, 4, 6]


def test_one_client_hanging_up_does_not_hurt_its_batch_mates() -> None:
    async def scenario() -> list[int | BaseException]:
        b = batcher(model, QUICK)
        async with asyncio.TaskGroup() as tasks:
            calls = [asyncio.create_task(b.infer(n, deadline=60.0)) for n in range(3)]
            await asyncio.sleep(0)
            calls[1].cancel()
            await asyncio.sleep(0)
            tasks.create_task(b.run())
            ended = await asyncio.gather(*calls, return_exceptions=True)
            b.drain()
        return [one if isinstance(one, BaseException) else one.answer for one in ended]

    model = Doubler()
    first, gone, last = run(scenario())
    assert isinstance(gone, asyncio.CancelledError)
    assert [first, last] == [0, 4]
    assert model.batches == [[0, 2]]


def test_a_bad_sample_fails_alone_and_the_batcher_goes_on() -> None:
    async def scenario() -> None:
        b = batcher(Doubler(), QUICK)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(b.run())
            one, bad, two = await answers(b, [1, POISON, 2])
            assert (one, two) == (2, 4)
            assert isinstance(bad, Malformed)
            assert await answers(b, [5]) == [10]
            b.drain()

    run(scenario())


def test_a_model_that_answers_too_few_fails_its_batch_only() -> None:
    async def scenario() -> None:
        b = Batcher[int, int](
            lambda numbers: list(numbers)[1:], LatencyCurve(QUICK), size_max=2, depth_max=4,
            now=asyncio.get_running_loop().time,
        )  # fmt: skip
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(b.run())
            assert all(isinstance(e, ValueError) for e in await answers(b, [1, 2]))
            b.drain()

    run(scenario())


def test_overload_and_hopeless_deadlines_are_refused_at_once() -> None:
    async def scenario() -> None:
        b = batcher(Doubler(), QUICK)
        waiting = [asyncio.create_task(b.infer(n, deadline=60.0)) for n in range(8)]
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await b.infer(9, deadline=60.0)
        for call in waiting:
            call.cancel()
        with pytest.raises(DeadlineMissed):
            await batcher(Doubler(), SLOW).infer(1, deadline=0.005)

    run(scenario())


@pytest.mark.parametrize(("measured", "inline"), [(QUICK, True), (SLOW, False)])
def test_only_a_batch_under_a_millisecond_runs_on_the_event_loop(
    measured: dict[int, float], *, inline: bool
) -> None:
    async def scenario() -> None:
        b = Batcher(model, LatencyCurve(measured), size_max=4)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(b.run())
            assert (await b.infer(1, deadline=time.monotonic() + 60)).answer == 2
            b.drain()

    model = Doubler()
    asyncio.run(scenario())
    assert (model.threads == {threading.main_thread().name}) == inline
    assert len(model.threads) == 1
