"""Work that an event overtakes."""

import asyncio

import pytest

from cloud.training.worker.racing import Overtaken, unless


async def fails():
    raise ValueError("a bug")


async def nine():
    return 9


def test_work_that_ends_first_gives_what_it_gives():
    async def go():
        event = asyncio.Event()
        with pytest.raises(ValueError, match="a bug"):
            await unless(event, fails())
        return await unless(event, nine())

    assert asyncio.run(go()) == 9


def test_work_that_is_overtaken_has_ended_when_that_is_said():
    ended = []

    async def works():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("work")

    async def go():
        event = asyncio.Event()
        asyncio.get_running_loop().call_soon(event.set)
        with pytest.raises(Overtaken):
            await unless(event, works())
        assert ended == ["work"]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(go())


def test_whoever_waits_for_it_and_is_cancelled_leaves_nothing_behind():
    async def go():
        waits = asyncio.create_task(unless(asyncio.Event(), asyncio.Event().wait()))
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        assert waits.cancelled()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(go())
