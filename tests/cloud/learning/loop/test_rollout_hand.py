"""What a loop reads of a fleet's alarms, from a server whose answers are prepared."""

import asyncio

from cloud.learning.loop import commands as c
from cloud.learning.loop.rollout_hand import RolloutHand
from cloud.learning.settings import LearningFleet
from cloud.monitoring.drift.documents import Alarm, Cause, Kind, Scope
from tests.cloud.registry.client.scripted_server import ok, scripted

MODEL, VERSION = "fashion-edge", "1.0.1"


def alarm(name: str, at: float, kind: str = "device") -> Alarm:
    return Alarm.model_validate({
        "id": name, "kind": Kind.ACCURACY, "cause": Cause.SENSOR, "words": "w", "runbook": "r",
        "scope": Scope.model_validate(
            {"kind": kind, "name": name, "model": MODEL, "version": VERSION}
        ),
        "command": "c", "opened_at": at,
    })  # fmt: skip


def page(*alarms: Alarm, following: str | None = None) -> bytes:
    return ok({"alarms": [one.model_dump(mode="json") for one in alarms], "next": following})


def test_newer_alarms_of_devices_do_not_hide_a_groups() -> None:
    newer = [alarm(f"cam-{number}", 2000.0) for number in range(200)]
    pages = (page(*newer, following="cam-199"), page(alarm("north", 1000.0, "group")))
    watch = c.WatchRollout(model=MODEL, version=VERSION, rollout=None, since=900.0)

    async def work() -> None:
        async with scripted(*pages) as server:
            hand = RolloutHand(LearningFleet(urls=(server.url,)))
            assert "north" in {one.scope.name for one in await hand.alarms(MODEL)}
        async with scripted(*pages) as server:
            hand = RolloutHand(LearningFleet(urls=(server.url,)))
            assert [one.scope.name for one in (await hand.seen(watch)).alarms] == ["north"]

    asyncio.run(work())
