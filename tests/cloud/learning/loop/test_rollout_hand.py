"""What a loop reads of a fleet's alarms, from a server whose answers are prepared."""

import asyncio
import json
from pathlib import Path

import pytest

from cloud.learning.loop import commands as c
from cloud.learning.loop import events as e
from cloud.learning.loop.hands import Hands
from cloud.learning.loop.rollout_hand import RolloutHand
from cloud.learning.loop.rollout_spec import rollout_spec
from cloud.learning.settings import LearningFleet
from cloud.monitoring.drift.documents import Alarm, Cause, Kind, Scope
from cloud.rollouts.documents import RolloutView
from shared.errors import Conflict, Forbidden, HybridgeError, NotTrusted, Unknown
from tests.cloud.learning.loop.world import World
from tests.cloud.registry.client.scripted_server import ok, problem, response, scripted

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


UNDO = c.Undo(rollout="r-1", why="40% right")
WATCH = c.WatchRollout(model=MODEL, version=VERSION, rollout="r-1", since=900.0)
ROLL = c.Roll(
    model=MODEL, version=VERSION, group="all", seed="m-7", stages="fast", watch_s=0.0, comment="try"
)


def hands(settings: LearningFleet) -> Hands:
    others = World().hands()
    return Hands(others.samples, others.jobs, others.versions, RolloutHand(settings))


@pytest.mark.parametrize("command", [WATCH, UNDO])
@pytest.mark.parametrize(
    "error", [NotTrusted("no such key here"), Forbidden("ann may not do this: it needs a role")]
)
def test_a_key_that_is_being_changed_ends_no_cycle(
    command: c.AnyCommand, error: HybridgeError
) -> None:
    async def work() -> None:
        async with scripted(problem(error)) as server:
            answer = await hands(LearningFleet(urls=(server.url,))).do(command)
            assert isinstance(answer, e.Away)
            assert str(error) in answer.words

    asyncio.run(work())


@pytest.mark.parametrize("command", [WATCH, ROLL, UNDO], ids=lambda command: command.kind)
@pytest.mark.parametrize("status", [200, 302, 404])
def test_a_proxy_that_answers_in_the_fleets_place_ends_no_cycle(
    command: c.AnyCommand, status: int
) -> None:
    async def work() -> None:
        async with scripted(response(status, b"<html>deploying</html>")) as server:
            answer = await hands(LearningFleet(urls=(server.url,))).do(command)
            assert isinstance(answer, e.Away)

    asyncio.run(work())


@pytest.mark.parametrize(
    ("command", "kind"),
    [(WATCH, e.Away), (ROLL, e.Refused), (UNDO, e.Refused)],
    ids=["watch", "roll", "undo"],
)
def test_who_only_watches_looks_again_at_what_it_cannot_read(
    command: c.AnyCommand, kind: type[e.Away | e.Refused]
) -> None:
    async def work() -> None:
        async with scripted(ok({"of": "another release"})) as server:
            answer = await hands(LearningFleet(urls=(server.url,))).do(command)
            assert isinstance(answer, kind)
            assert "is one of the two older?" in answer.words

    asyncio.run(work())


def test_a_rollout_that_is_gone_is_no_proxys_word() -> None:
    async def work() -> None:
        async with scripted(page(), problem(Unknown("there is no rollout r-1"))) as server:
            answer = await hands(LearningFleet(urls=(server.url,))).do(WATCH)
            assert answer == e.Refused("there is no rollout r-1")

    asyncio.run(work())


def test_a_key_file_that_cannot_be_read_ends_no_cycle(tmp_path: Path) -> None:
    settings = LearningFleet(urls=("http://127.0.0.1:1",), api_key_file=tmp_path / "gone")
    answer = asyncio.run(hands(settings).do(WATCH))
    assert isinstance(answer, e.Away)
    assert "gone" in answer.words


def test_a_rollout_that_must_wait_for_another_is_started_later() -> None:
    spec = rollout_spec(ROLL)
    spec["subject"] = {
        "kind": "model", "model": MODEL, "version": VERSION, "manifest_sha256": "a" * 64,
    }  # fmt: skip
    view = RolloutView.model_validate_json(json.dumps({
        "id": "r-1", "spec": spec, "status": "draft", "created_by": "loop", "created_at": 1.0,
    }))  # fmt: skip
    drafted = ok({"rollouts": [view.model_dump(mode="json")], "next": None})
    busy = problem(Conflict("rollout r-0 runs in group all; one at a time: wait for it"))

    async def work() -> None:
        async with scripted(drafted, busy) as server:
            answer = await hands(LearningFleet(urls=(server.url,))).do(ROLL)
            assert isinstance(answer, e.Away)
            assert "one at a time" in answer.words

    asyncio.run(work())
