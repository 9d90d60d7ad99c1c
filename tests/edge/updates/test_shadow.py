import asyncio
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edge.answers import Answer, Route
from edge.updates import shadow
from edge.updates.shadow import Trial
from edge.updates.shadow_tally import ShadowTally
from edge.updates.trial import Terms, Verdict
from shared.new_ids import new_sample_id

IMAGE = np.zeros((4, 4), np.uint8)


def terms(**changes: Any) -> Terms:
    tree: dict[str, Any] = {
        "samples": 20, "samples_min": 5, "s_max": 20.0, "agreement_min": 0.8, "p95_ms_max": 1000.0,
        "few_samples": "accept",
    }  # fmt: skip
    return Terms(**(tree | changes))


def answered(label: int, route: Route = "accepted") -> Answer:
    return Answer(new_sample_id(), label, 0.9, "edge", route, "1.0.0", True, 1.0, edge_label=label)


class Model:
    """A candidate that does what a test says."""

    def __init__(self, logits: Callable[[], list[float]]) -> None:
        self._logits = logits
        self.threads: set[str] = set()

    def logits(self, tensor: NDArray[np.generic]) -> list[float]:
        self.threads.add(threading.current_thread().name)
        return self._logits()


async def tried(trial: Trial, label: int, *, shows: int = 10_000) -> tuple[Verdict, bool]:
    """Live samples that the edge answered with `label`; the verdict, and whether the slot is free."""
    running = asyncio.ensure_future(trial.run())
    for _ in range(shows):
        if running.done():
            break
        trial.show(IMAGE, answered(label))
        await asyncio.sleep(0.001)
    return await running, await trial.leave()


@pytest.mark.parametrize(
    ("logits", "accepted", "words"),
    [
        (lambda: [0.0, 5.0], True, "20 live samples, 100.0%"),
        (lambda: [5.0, 0.0], False, "agrees too little"),
        (lambda: [0.0, float("nan")], False, "NaN"),
        (lambda: [0.0, float("inf")], False, "NaN or infinity"),
        (lambda: [1 / 0], False, "raised an error"),
    ],
)
def test_the_verdict_on_a_candidate(
    logits: Callable[[], list[float]], accepted: bool, words: str
) -> None:
    async def main() -> None:
        model = Model(logits)
        verdict, free = await tried(Trial(model, terms(), 1.0), 1)
        assert (verdict.accepted, free) == (accepted, True)
        assert words in verdict.why
        assert model.threads == {"trial"}

    asyncio.run(main())


def test_more_samples_than_wait_are_skipped_and_the_event_loop_never_waits() -> None:
    may_run = threading.Event()

    def slow() -> list[float]:
        assert may_run.wait(20)
        return [0.0, 1.0]

    async def main() -> None:
        trial = Trial(Model(slow), terms(samples=32), 1.0)
        running = asyncio.ensure_future(trial.run())
        await asyncio.sleep(0)
        for _ in range(100):
            trial.show(IMAGE, answered(1))
        assert trial.tally.skipped == 68
        may_run.set()
        verdict = await running
        assert verdict.accepted
        assert "68 skipped" in verdict.why
        assert await trial.leave()

    asyncio.run(main())


def test_samples_that_the_cloud_will_answer_go_first() -> None:
    may_run, here = threading.Event(), threading.Event()
    images = [np.full((4, 4), number, np.uint8) for number in range(200)]
    seen: list[int] = []

    class Model:
        def logits(self, tensor: NDArray[np.generic]) -> list[float]:
            here.set()
            assert may_run.wait(20)
            seen.append(int(tensor[0, 0]))
            return [0.0, 1.0]

    async def main() -> None:
        trial = Trial(Model(), terms(samples=32), 1.0)
        running = asyncio.ensure_future(trial.run())
        trial.show(images[0], answered(1))
        await asyncio.to_thread(here.wait, 20)
        for number in range(1, 50):
            trial.show(images[number], answered(1))
        for number in range(100, 110):
            trial.show(images[number], answered(1, "audit" if number % 2 else "escalated"))
        assert trial.tally.skipped == 18 + 9  # nine of those that waited made room
        may_run.set()
        await running
        assert await trial.leave()
        assert seen[:12] == [0, *range(100, 110), 1]

    asyncio.run(main())


def test_one_run_goes_from_staged_to_trial_with_what_it_has_shown() -> None:
    async def main() -> None:
        evidence = ShadowTally("2.0.0", 1)
        trial = Trial(Model(lambda: [0.0, 5.0]), terms(), 1.0, evidence=evidence, live=False)
        running = asyncio.ensure_future(trial.run())
        while trial.tally.ran < 25:  # more than a trial asks for
            trial.show(IMAGE, answered(1))
            await asyncio.sleep(0.001)
        assert not running.done()
        trial.turn(live=True)
        assert (await running).accepted
        assert await trial.leave()
        assert evidence.shadow().samples == trial.tally.ran

    asyncio.run(main())


def test_a_staged_candidate_that_breaks_is_rejected() -> None:
    async def main() -> None:
        evidence = ShadowTally("2.0.0", 1)
        broken = Model(lambda: [0.0, float("nan")])
        trial = Trial(broken, terms(s_max=0.01), 1.0, evidence=evidence, live=False)
        verdict, free = await tried(trial, 1)
        assert (verdict.accepted, free) == (False, True)
        assert evidence.shadow().failed >= 1

    asyncio.run(main())


def test_samples_beyond_the_cpu_budget_are_skipped() -> None:
    pause = threading.Event()

    def busy() -> list[float]:
        pause.wait(0.02)
        return [0.0, 1.0]

    async def main() -> None:
        trial = Trial(Model(busy), terms(samples=1000, s_max=1.0, samples_min=1), 0.1)
        verdict, _ = await tried(trial, 1)
        assert verdict.accepted
        assert trial.tally.ran <= 45  # 0.1 s at once, and a tenth of each second, and what waits
        assert trial.tally.skipped > trial.tally.ran

    asyncio.run(main())


def test_a_candidate_that_hangs_is_rejected_and_left_behind() -> None:
    may_run = threading.Event()

    def hang() -> list[float]:
        may_run.wait(30)
        return [0.0, 1.0]

    async def main() -> None:
        trial = Trial(Model(hang), terms(), 1.0, hung_s=0.1)
        verdict, free = await tried(trial, 1, shows=3)
        assert (verdict.accepted, free) == (False, False)
        assert "hangs" in verdict.why
        may_run.set()

    asyncio.run(main())


def test_a_trial_that_is_cancelled_frees_the_candidate() -> None:
    async def main() -> None:
        trial = Trial(Model(lambda: [0.0, 1.0]), terms(), 1.0)
        running = asyncio.ensure_future(trial.run())
        await asyncio.sleep(0)
        trial.show(IMAGE, answered(1))
        running.cancel()
        await asyncio.wait({running})
        assert await trial.leave()

    asyncio.run(main())


def test_who_ends_the_agent_does_not_wait_for_a_candidate_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shadow, "HURRY_S", 0.05)
    never, here = threading.Event(), threading.Event()

    def hang() -> list[float]:
        here.set()
        never.wait()
        return [0.0]

    async def main() -> None:
        trial = Trial(Model(hang), terms(), 1.0, hung_s=60.0)
        running = asyncio.ensure_future(trial.run())
        await asyncio.sleep(0)
        trial.show(IMAGE, answered(0))
        await asyncio.to_thread(here.wait)
        running.cancel()
        async with asyncio.timeout(10):
            assert not await trial.leave(hurry=True)

    try:
        asyncio.run(main())
    finally:
        never.set()
