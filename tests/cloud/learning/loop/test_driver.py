"""The driver over a real database: it goes on where it was killed, waits and is woken."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from cloud.learning.documents import Arrow, Cycle, Decision, LoopSettings, Phase, Triggers
from cloud.learning.loop.changes import Changes
from cloud.learning.loop.desk import LoopDesk
from cloud.learning.loop.driver import LoopDriver
from cloud.learning.loop.events import Answered, Event, Go
from cloud.learning.loop.record import CycleRecord
from cloud.learning.loop.settings import Loops
from cloud.learning.metrics import LearningMetrics
from cloud.learning.store.loops import MIGRATIONS, LoopStore
from cloud.monitoring.drift.documents import Alarm, Cause, Kind, Scope
from cloud.training.store.database import LearningDatabase
from shared.errors import Conflict, Malformed, Unknown
from tests.cloud.learning.loop.cycles import settings
from tests.cloud.learning.loop.test_crash_points import ONCE
from tests.cloud.learning.loop.world import World

QUICK = Loops(trigger_s=0.01, look_s=0.001, count_s=0.001, away_s=0.001)
MODEL = "fashion-edge"
WITHIN_S = 20.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LoopStore]:
    database = LearningDatabase(f"sqlite:///{tmp_path / 'learning.db'}")
    database.open(MIGRATIONS)
    yield LoopStore(database, QUICK)
    database.close()


class Clock:
    """Ten seconds pass at each look."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 10
        return self.now


class Desk(LoopDesk):
    """Whose tests wait for what begins by itself."""

    def begun(self, name: str) -> asyncio.Task[None]:
        async def until_begun() -> None:
            with self._changes.watched(name) as moved:
                await moved.wait()

        return asyncio.create_task(until_begun())


@contextlib.asynccontextmanager
async def driving(
    store: LoopStore, world: World, clock: Callable[[], float], loops: Loops = QUICK
) -> AsyncIterator[Desk]:
    changes = Changes()
    metrics = LearningMetrics(CollectorRegistry())
    driver = LoopDriver(store, world.hands(), loops, changes, metrics, clock)
    running = asyncio.create_task(driver.run())
    try:
        async with asyncio.timeout(WITHIN_S):
            yield Desk(store, driver, changes, clock)
    finally:
        driver.drain()
        async with asyncio.timeout(WITHIN_S):
            await running


async def until(desk: LoopDesk, name: str, seen: Callable[[Cycle], bool]) -> Cycle:
    cycle = await desk.cycle(name)
    while not seen(cycle):
        cycle = await desk.watch(name, cycle.revision, WITHIN_S, asyncio.Event())
    return cycle


def manual(**changes: object) -> LoopSettings:
    """Begun by a person alone."""
    return settings(triggers=Triggers(drift=False, samples_min=100), **changes)


def test_from_a_trigger_to_its_end_with_one_of_each(store: LoopStore) -> None:
    async def main() -> None:
        world = World()
        async with driving(store, world, Clock()) as desk:
            begun = desk.begun(f"{MODEL}-1")
            await desk.put(settings(triggers=Triggers(samples=500, pause_s=1e9)), None)
            await begun
            cycle = await until(desk, f"{MODEL}-1", lambda one: one.ended_at is not None)
            assert cycle.phase is Phase.DONE
            after = await desk.loop(MODEL)
            assert (after.cycle, after.last) == (None, cycle)
            assert after.next_at is not None
            assert after.next_at > 1e9
            words = [one.words for one in await desk.lines(cycle.id)]
        assert words[0].startswith("begun by samples")
        assert words[-1].startswith("done")
        assert world.made == ONCE

    asyncio.run(main())


def test_ended_after_each_step_and_begun_again_it_makes_one_of_each(store: LoopStore) -> None:
    """Each life of the process is cut as soon as the cycle moved."""

    async def main() -> None:
        world, clock, lives = World(), Clock(), 0
        async with driving(store, world, clock) as desk:
            await desk.put(manual(), None)
            name = (await desk.begin(MODEL, "ann", "")).id
        cycle = await asyncio.to_thread(store.cycle, name)
        while not cycle.is_over:
            seen, lives = cycle.cycle.revision, lives + 1
            async with driving(store, world, clock) as desk:
                await desk.watch(name, seen, WITHIN_S, asyncio.Event())
            cycle = await asyncio.to_thread(store.cycle, name)
        assert cycle.cycle.phase is Phase.DONE
        assert lives > 3
        assert world.made == ONCE

    asyncio.run(main())


def test_a_person_is_asked_and_his_word_moves_it(store: LoopStore) -> None:
    async def main() -> None:
        world = World()
        async with driving(store, world, Clock()) as desk:
            await desk.put(manual(asks=frozenset({Arrow.TRAIN, Arrow.ROLLOUT})), None)
            name = (await desk.begin(MODEL, "ann", "a look")).id
            cycle = await until(desk, name, lambda one: one.asks is Arrow.TRAIN)
            assert not world.jobs
            with pytest.raises(Conflict, match="moved on"):
                await desk.decide(name, Decision(verb="go"), "ann", cycle.revision - 1)
            await desk.decide(name, Decision(verb="go"), "ann", cycle.revision)
            await until(desk, name, lambda one: one.asks is Arrow.ROLLOUT)
            assert world.made["release"] == 1
            assert not world.rollouts
            await desk.decide(name, Decision(verb="stop", comment="not now"), "ann", None)
            cycle = await desk.cycle(name)
            assert (cycle.phase, cycle.why[:23]) == (Phase.STOPPED, "stopped by ann: not now")

    asyncio.run(main())


def test_a_word_whose_request_ended_before_it_was_told_moves_it_all_the_same(
    store: LoopStore,
) -> None:
    async def main() -> None:
        async with driving(store, World(), clock := Clock()) as desk:
            await desk.put(manual(asks=frozenset({Arrow.TRAIN, Arrow.ROLLOUT})), None)
            name = (await desk.begin(MODEL, "ann", "")).id
            await until(desk, name, lambda one: one.asks is Arrow.TRAIN)
            await asyncio.to_thread(store.step, name, Go("ann", ""), clock())
            await until(desk, name, lambda one: one.asks is Arrow.ROLLOUT)

    asyncio.run(main())


def test_stopped_while_it_trains_its_job_is_cancelled(store: LoopStore) -> None:
    async def main() -> None:
        world = World(hangs={"queue"})  # a look that takes for ever is dropped for a person's word
        async with driving(
            store, world, Clock(), QUICK.model_copy(update={"look_s": 60.0})
        ) as desk:
            await desk.put(manual(), None)
            name = (await desk.begin(MODEL, "ann", "")).id
            await until(desk, name, lambda one: one.job is not None)
            await desk.decide(
                name, Decision(verb="stop"), "ann", None
            )  # and it need not wait a minute
            cycle = await until(desk, name, lambda one: one.ended_at is not None)
            assert cycle.phase is Phase.STOPPED
            assert list(world.jobs.values()) == ["cancelled"]

    asyncio.run(main())


def test_who_is_away_is_said_and_asked_again(store: LoopStore) -> None:
    async def main() -> None:
        world = World(away={"registry"})
        async with driving(store, world, Clock()) as desk:
            await desk.put(manual(), None)
            name = (await desk.begin(MODEL, "ann", "")).id
            cycle = await until(desk, name, lambda one: "cannot be reached" in one.waits_for)
            assert cycle.phase is Phase.TRAINING
            world.away.clear()
            cycle = await until(desk, name, lambda one: one.ended_at is not None)
            assert cycle.phase is Phase.DONE

    asyncio.run(main())


def test_a_drift_alarm_begins_a_cycle_and_a_fleet_that_is_away_begins_none(
    store: LoopStore,
) -> None:
    async def main() -> None:
        alarm = Alarm(
            id="a-1", kind=Kind.INPUT, cause=Cause.SCENE, words="darker", runbook="", command="",
            scope=Scope(kind="group", name="lyon", model=MODEL, version="1.0.0"), opened_at=1.0,
        )  # fmt: skip
        world = World(on=(alarm,), away={"fleet"}, samples=0)
        async with driving(store, world, Clock()) as desk:
            await desk.put(settings(), None)
            await world.until_asked("fleet", 3)
            assert (await desk.loop(MODEL)).cycle is None
            begun = desk.begun(f"{MODEL}-1")
            world.away.clear()
            await begun
            assert (await desk.cycle(f"{MODEL}-1")).trigger_words == "alarm a-1: darker"

    asyncio.run(main())


def test_a_fleet_that_never_answers_keeps_no_cycle_from_going_on_and_nobody_from_ending(
    store: LoopStore,
) -> None:
    async def main() -> None:
        world = World(hangs={"fleet"})
        async with driving(store, world, Clock()) as desk:
            asked = asyncio.create_task(world.until_asked("fleet", 1))
            await desk.put(settings(model="a"), None)
            await asked  # what the triggers of "a" look at never comes
            await desk.put(manual(), None)
            name = (await desk.begin(MODEL, "ann", "")).id
            cycle = await until(desk, name, lambda one: one.ended_at is not None)
            assert cycle.phase is Phase.DONE

    asyncio.run(main())


def test_nothing_is_kept_of_who_asked_for_a_cycle(store: LoopStore) -> None:
    async def main() -> None:
        changes, ending = Changes(), asyncio.Event()
        metrics = LearningMetrics(CollectorRegistry())
        driver = LoopDriver(store, World().hands(), QUICK, changes, metrics, Clock())
        desk = LoopDesk(store, driver, changes, Clock())
        for number in range(3):
            with pytest.raises(Unknown):
                await desk.watch(f"none-{number}", 0, WITHIN_S, ending)
        await desk.put(manual(), None)
        cycle = await desk.begin(MODEL, "ann", "")
        assert await desk.watch(cycle.id, cycle.revision, 0.001, ending) == cycle
        assert await desk.watch(cycle.id, cycle.revision - 1, WITHIN_S, ending) == cycle
        assert len(changes) == 0

    asyncio.run(main())


def test_who_waits_for_a_cycle_is_answered_when_the_process_ends(store: LoopStore) -> None:
    async def main() -> None:
        world, ending = World(samples=0), asyncio.Event()
        async with driving(store, world, Clock()) as desk:
            await desk.put(manual(), None)
            name = (await desk.begin(MODEL, "ann", "")).id
            cycle = await until(desk, name, lambda one: "more samples" in one.waits_for)
            waits = asyncio.create_task(desk.watch(name, cycle.revision, WITHIN_S, ending))
            ending.set()
            assert await waits == cycle

    asyncio.run(main())


class Refusing(LoopStore):
    """Its database takes none of the first answers."""

    refused = 0

    def step(
        self, cycle: str, event: Event, now: float, revision: int | None = None
    ) -> CycleRecord:
        if isinstance(event, Answered) and self.refused < 3:
            self.refused += 1
            raise Malformed("the learning database: a value that it will never take")
        return super().step(cycle, event, now, revision)


def test_an_answer_that_cannot_be_stored_does_not_end_the_process(store: LoopStore) -> None:
    async def main() -> None:
        world, refusing = World(), Refusing(store._database, QUICK)
        async with driving(refusing, world, Clock()) as desk:
            await desk.put(manual(), None)
            name = (await desk.begin(MODEL, "ann", "a look")).id
            await until(desk, name, lambda one: one.phase is Phase.DONE)
        assert refusing.refused == 3
        assert world.made == ONCE

    asyncio.run(main())


def test_a_loop_that_can_take_no_sample_any_more_ends_neither_the_process_nor_another_loop(
    store: LoopStore,
) -> None:
    async def main() -> None:
        over = settings(
            model="a", triggers=Triggers(samples=500), watch_s=0.0,
            data={"model": "a", "until": 500.0},
        )  # fmt: skip
        async with driving(store, World(), Clock()) as desk:
            begun = desk.begun("a-1")
            await desk.put(over, None)
            await begun
            cycle = await until(desk, "a-1", lambda one: one.ended_at is not None)
            assert cycle.phase is Phase.DONE
            store.put(
                over.model_copy(update={"triggers": Triggers(samples=500, pause_s=0)}), None, 1.0
            )
            begun = desk.begun(f"{MODEL}-2")
            await desk.put(settings(triggers=Triggers(samples=500, pause_s=1e9)), None)
            await begun
            with pytest.raises(Conflict, match="no sample is left"):
                await desk.begin("a", "ann", "")
            with pytest.raises(Conflict, match="no sample is left"):
                await desk.put(over, None)
            await until(desk, f"{MODEL}-2", lambda one: one.ended_at is not None)

    asyncio.run(main())
