"""Killed at any point, a cycle repeats nothing: what it made is found again."""

import asyncio
from collections.abc import Callable

import pytest

from cloud.learning.documents import Phase
from cloud.learning.loop import events as e
from cloud.learning.loop.machine import step
from cloud.learning.loop.record import CycleRecord
from shared.errors import Conflict
from tests.cloud.learning.loop.cycles import GOOD, NOW, begun
from tests.cloud.learning.loop.world import World

ONCE = {"data set": 1, "job": 1, "evaluation": 1, "approval": 1, "release": 1, "rollout": 1}


async def turn(record: CycleRecord, world: World, now: float, *, kept: bool = True) -> CycleRecord:
    """One command and its answer; not `kept`: the process is killed between the two, and what it goes
    on with is what was stored.
    """
    assert record.doing is not None
    answer = await world.hands().do(record.doing)
    after = step(record, e.Answered(record.cycle.revision, answer), now).record
    return CycleRecord.model_validate_json((after if kept else record).model_dump_json())


def run(
    world: World, killed_at: Callable[[int], bool], record: CycleRecord | None = None
) -> CycleRecord:
    async def through() -> CycleRecord:
        now, found = NOW, record or begun()
        for number in range(200):
            if found.is_over:
                return found
            now += 10
            found = await turn(found, world, now, kept=not killed_at(number))
        raise AssertionError(f"it never ends: {found.cycle}")

    return asyncio.run(through())


TURNS = 22


@pytest.mark.parametrize("point", range(TURNS))
def test_killed_between_a_command_and_its_record_it_makes_nothing_twice(point: int) -> None:
    world = World()
    assert run(world, lambda number: number == point).cycle.phase is Phase.DONE
    assert world.made == ONCE


def test_killed_after_every_command_once_it_makes_nothing_twice() -> None:
    world = World()
    assert run(world, lambda number: number % 2 == 0).cycle.phase is Phase.DONE
    assert world.made == ONCE


@pytest.mark.parametrize("point", range(6))
def test_a_version_that_is_refused_is_rejected_once(point: int) -> None:
    world = World(figures={**GOOD, "clean.accuracy": 0.5})
    assert run(world, lambda number: number == point).cycle.phase is Phase.REFUSED
    assert world.made["rejection"] == 1
    assert world.made["evaluation"] == 0


@pytest.mark.parametrize("stopped_at", range(TURNS))
@pytest.mark.parametrize("killed_at", range(3))
def test_stopped_at_any_point_and_killed_around_it_no_job_runs_on(
    stopped_at: int, killed_at: int
) -> None:
    async def through() -> None:
        world, record = World(), begun()
        for _ in range(stopped_at):
            if record.is_over:
                return
            record = await turn(record, world, NOW + 1)
        if killed_at == 1 and record.doing is not None:  # done, and never written down
            await world.hands().do(record.doing)
        try:
            record = step(record, e.Stop("ann"), NOW + 2).record
        except Conflict:
            assert record.is_over
            return
        for number in range(3):
            if not record.is_over:
                record = await turn(
                    record, world, NOW + 3, kept=not (number == 0 and killed_at == 2)
                )
        assert record.cycle.phase is Phase.STOPPED
        assert all(state in {"cancelled", "done"} for state in world.jobs.values())

    asyncio.run(through())
