"""The gate on virtual time: an hour of an online tier's day passes in a blink."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from cloud.batch.gate import ASK_S, Gate, OutsideHours
from cloud.batch.governor import Rules
from cloud.batch.hours import parse_hours
from cloud.batch.online_load import OnlineLoad
from simulations.virtual_time import run

BATCH_S = 0.010
IDLE = OnlineLoad(busy_share=0.0, queue_depth=0)
QUEUED = OnlineLoad(busy_share=0.5, queue_depth=17)
MIDNIGHT = datetime(2026, 1, 11, tzinfo=UTC)


class Scripted:
    """An online tier whose load is a function of time."""

    def __init__(self, load_at: Callable[[float], OnlineLoad | None]) -> None:
        self.load_at = load_at
        self.why_not = "scripted"
        self.asked = 0

    async def read(self) -> OnlineLoad | None:
        self.asked += 1
        return self.load_at(asyncio.get_running_loop().time())


def gate(load: Scripted | None, stop: asyncio.Event | None = None, **more: object) -> Gate:
    now = asyncio.get_running_loop().time
    return Gate(
        stop=stop or asyncio.Event(), today=lambda: MIDNIGHT + timedelta(seconds=now()), now=now,
        load=load, **more,
    )  # fmt: skip


async def batches(passes: Gate, until: float) -> list[float]:
    """Run batches of 10 ms through the gate; when each began."""
    loop, began = asyncio.get_running_loop(), []
    while loop.time() < until and await passes():
        began.append(loop.time())
        await asyncio.sleep(BATCH_S)
    return began


def share(began: list[float], start: float, end: float) -> float:
    return sum(start <= at < end for at in began) * BATCH_S / (end - start)


def test_without_an_online_tier_it_never_waits() -> None:
    async def main() -> None:
        assert len(await batches(gate(None), 1.0)) == 100

    run(main())


def test_it_takes_the_idle_share() -> None:
    async def main() -> None:
        steady = Scripted(lambda _: OnlineLoad(busy_share=0.7, queue_depth=0))
        began = await batches(gate(steady), 60)
        assert share(began, 20, 60) == pytest.approx(0.3, abs=0.03)
        assert steady.asked <= 60 / ASK_S + 1

    run(main())


def test_it_stops_within_one_look_and_a_batch_when_requests_queue() -> None:
    async def main() -> None:
        began = await batches(gate(Scripted(lambda t: QUEUED if 10 <= t < 20 else IDLE)), 40)
        assert share(began, 5, 10) > 0.95
        stopped = max(at for at in began if at < 20)
        assert stopped <= 10 + ASK_S + BATCH_S
        back = min(at for at in began if at >= 20)
        assert back <= 20 + ASK_S + BATCH_S
        assert share(began, back, back + 1) < 0.5  # it climbs
        assert share(began, 30, 40) > 0.95

    run(main())


def test_a_silent_online_tier_is_said_once_and_leaves_a_tenth(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        began = await batches(gate(Scripted(lambda t: None if 10 <= t < 40 else IDLE)), 60)
        assert share(began, 12, 40) == pytest.approx(0.1, abs=0.02)

    caplog.set_level("INFO", "cloud.batch.gate")
    run(main())
    assert [r.message for r in caplog.records] == ["online_tier_silent", "online_tier_back"]


def test_a_stop_ends_a_pause_at_once() -> None:
    async def main() -> None:
        stop = asyncio.Event()
        passes = gate(Scripted(lambda _: QUEUED), stop)
        asyncio.get_running_loop().call_later(3.0, stop.set)
        assert not await passes()
        assert asyncio.get_running_loop().time() == pytest.approx(3.0)

    run(main())


def test_a_paused_batch_says_why() -> None:
    async def main() -> None:
        stop = asyncio.Event()
        passes = gate(Scripted(lambda _: QUEUED), stop)
        asyncio.get_running_loop().call_later(3.0, stop.set)
        await passes()
        assert passes.state == "paused: 17 online requests wait"

    run(main())


def test_it_waits_for_its_hours_and_stops_with_them() -> None:
    async def main() -> None:
        stop = asyncio.Event()
        passes = gate(None, stop, hours=parse_hours("00:10-00:11", UTC))
        asyncio.get_running_loop().call_later(700.0, stop.set)
        began = await batches(passes, 700.0)
        assert began[0] == pytest.approx(600.0)
        assert began[-1] < 660.0
        assert passes.state == "waits until 2026-01-12 00:10 UTC"

    run(main())


def test_whoever_does_not_wait_is_told_when_the_hours_begin() -> None:
    async def main() -> None:
        passes = gate(None, hours=parse_hours("22:00-06:00", UTC), waits=False)
        assert await passes()
        later = gate(None, hours=parse_hours("22:00-23:00", UTC), waits=False)
        with pytest.raises(OutsideHours, match="they begin 2026-01-11 22:00 UTC"):
            await later()

    run(main())


def test_rests_are_not_saved_up_for_long() -> None:
    """A single slow batch at a low share must not be paid for minutes later."""

    async def main() -> None:
        loop = asyncio.get_running_loop()
        passes = gate(Scripted(lambda _: None), rules=Rules(share_unknown=0.02))
        await passes()
        await asyncio.sleep(5.0)
        began = loop.time()
        await passes()
        assert loop.time() - began < 1.1

    run(main())
