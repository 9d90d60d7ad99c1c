"""When a loop's threshold is fitted anew by itself: who is away is asked again at the next look. And
of whom: of the devices that get it.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cloud.feedback.answers import AnswerRows
from cloud.feedback.documents import SampleQuery
from cloud.fleet.client.client import FleetClient
from cloud.fleet.documents import Device, Profile
from cloud.learning.documents import LoopSettings, Refit
from cloud.learning.models import Models
from cloud.learning.neighbours import fleet_at
from cloud.learning.profile_rollouts import RolloutRuns, check_is_free, rolled
from cloud.learning.refitting import Refits, Refitting
from cloud.learning.settings import LearningFleet
from cloud.learning.store.loops import MIGRATIONS, LoopStore
from cloud.learning.store.settings import LoopsKept
from cloud.rollouts.documents import RolloutView
from cloud.training.store.database import LearningDatabase
from shared.errors import Conflict, Unavailable
from shared.fleet.profile import ProfileSettings, digest
from tests.cloud.feedback.world import MODEL, row, world
from tests.tiny_bundle import write_tiny_bundle

MADE_AT, NOW = 1.0, 1000.0


@pytest.fixture
def loops(tmp_path: Path) -> Iterator[LoopStore]:
    database = LearningDatabase(f"sqlite:///{tmp_path / 'learning.db'}")
    database.open(MIGRATIONS)
    store = LoopStore(database, LoopsKept())
    store.put(LoopSettings(model="edge", teacher="cloud", refit_every_s=100.0), None, MADE_AT)
    yield store
    database.close()


class NoAnswers:
    def answers(self, query: SampleQuery, rows_max: int, devices: Sequence[str] = ()) -> AnswerRows:
        raise AssertionError("nothing is released, so there is nothing to fit")


class Registry:
    """It is away, or has no release."""

    def __init__(self, *, is_away: bool) -> None:
        self._is_away, self.asked = is_away, 0

    async def current(self, model: str) -> str | None:
        self.asked += 1
        if self._is_away:
            raise Unavailable("the registry is away")
        return None


@asynccontextmanager
async def fleet(*devices: Device) -> AsyncIterator[LearningFleet]:
    """With these devices; its groups have no profile, and none is rolled out."""

    async def group(request: web.Request) -> web.Response:
        return web.json_response({"name": request.match_info["group"]})

    async def all_devices(_: web.Request) -> web.Response:
        found = [one.model_dump(mode="json") for one in devices]
        return web.json_response({"devices": found, "next": None})

    async def rollouts(_: web.Request) -> web.Response:
        return web.json_response({"rollouts": [], "next": None})

    app = web.Application()
    app.router.add_get("/v1/groups/{group}", group)
    app.router.add_get("/v1/rollouts", rollouts)
    app.router.add_get("/v1/devices", all_devices)
    async with TestServer(app) as server:
        yield LearningFleet(urls=(str(server.make_url("")),))


def after_three_looks(loops: LoopStore, folder: Path, *, is_away: bool) -> int:
    """How often the registry was asked."""
    registry = Registry(is_away=is_away)

    async def work() -> None:
        async with fleet() as asked:
            models = Models((folder,), None, folder)
            refitting = Refitting(
                loops, NoAnswers(), registry, models, asked, Refits(), 60.0, lambda: NOW
            )
            for _ in range(3):
                await refitting.look()

    asyncio.run(work())
    return registry.asked


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "cloud.learning.refitting"]


def test_who_is_away_is_asked_at_each_look_and_told_of_once(
    loops: LoopStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert after_three_looks(loops, tmp_path, is_away=True) == 3
    assert loops.refitted_at("edge") is None
    assert events(caplog) == ["refit_waits"]


def test_what_is_refused_waits_for_its_next_time(
    loops: LoopStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert after_three_looks(loops, tmp_path, is_away=False) == 1
    assert loops.refitted_at("edge") == NOW
    assert events(caplog) == ["refit_refused"]


class Current:
    async def current(self, model: str) -> str | None:
        assert model == MODEL
        return "1.0.0"


def fitted(loops: LoopStore, folder: Path, group: str) -> Refit:
    """Of samples on which the edge of `cam-1` is right and that of `cam-2` is wrong. One is in group
    `north`, the other in `south`, and nobody in `empty`.
    """
    write_tiny_bundle(folder / "bundles" / MODEL, name=MODEL)
    loops.put(LoopSettings(model=MODEL, teacher="tiny-cloud", group=group), None, MADE_AT)
    models = Models((folder / "bundles",), None, folder / "state")
    devices = (Device(id="cam-1", group="north"), Device(id="cam-2", group="south"))

    async def work() -> Refit:
        async with fleet(*devices) as asked:
            with world(f"sqlite:///{folder / 'f.db'}", folder) as here:
                here.write(*(
                    row(n, device=f"cam-{n % 2 + 1}", label=1, edge_label=1 + n % 2, at=NOW - 1)
                    for n in range(800)
                ))  # fmt: skip
                refitting = Refitting(
                    loops, here.store, Current(), models, asked, Refits(), 60.0, lambda: NOW
                )
                return await refitting.fitted(MODEL)

    return asyncio.run(work())


def test_a_groups_threshold_is_fitted_on_the_groups_own_samples(
    loops: LoopStore, tmp_path: Path
) -> None:
    found = fitted(loops, tmp_path, "north")
    assert found.samples == 400
    assert found.confidence_min == pytest.approx(0.4)


@pytest.mark.parametrize("group", ["south", "all"])
def test_what_the_samples_of_others_would_give_is_not_what_it_gets(
    loops: LoopStore, tmp_path: Path, group: str
) -> None:
    with pytest.raises(Conflict, match="a new model is needed"):
        fitted(loops, tmp_path, group)


def test_a_group_without_devices_has_nothing_to_fit_on(loops: LoopStore, tmp_path: Path) -> None:
    with pytest.raises(Conflict, match="group empty has no devices"):
        fitted(loops, tmp_path, "empty")


class ProfileFleet:
    """Whose group had version 2 of its profile rolled out, and was put back to 1. `cam-1` is in group
    north and in the rollout, `cam-2` in group south. `refusal`: of `start`.
    """

    def __init__(self, has: int | None, refusal: int | None = None) -> None:
        self.has, self.asked, self.refusal = has, list[str](), refusal
        self.refused: int | None = None
        """Whatever is asked."""
        spec = {
            "subject": {"kind": "profile", "name": "slow", "version": 2, "sha256": "a" * 64},
            "group": "all",
            "seed": hashlib.sha256(b"all slow 2").hexdigest()[:16], "shadow_s": 0,
        }  # fmt: skip
        self.view = RolloutView.model_validate_json(json.dumps({
            "id": "r-1", "spec": spec, "status": "succeeded", "created_by": "ann",
            "created_at": 1.0,
        })).model_dump(mode="json")  # fmt: skip

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(f"{request.method} {request.path}")
        if self.refused is not None:
            return web.json_response({}, status=self.refused)
        if request.path == "/v1/groups/all":
            has = None if self.has is None else {"name": "slow", "version": self.has}
            return web.json_response({"name": "all", "profile": has})
        if request.path == "/v1/devices":
            devices = [{"id": "cam-1", "group": "north"}, {"id": "cam-2", "group": "south"}]
            return web.json_response({"devices": devices, "next": None})
        if request.path.endswith("/devices"):
            held = [{"device": "cam-1", "stage": 0, "phase": "done"}]
            return web.json_response({"devices": held, "next": None})
        if request.path.endswith("start") and self.refusal is not None:
            self.view["status"] = "running"  # began since it was looked at
            problem = {"type": "urn:hybridge:problem:conflict", "status": self.refusal}
            return web.json_response(problem, status=self.refusal)
        if request.method == "POST":
            status = "running" if request.path.endswith("start") else "draft"
            return web.json_response(self.view | {"id": "r-2", "status": status})
        return web.json_response({"rollouts": [self.view], "next": None})


@pytest.mark.parametrize(
    ("has", "made"), [(2, []), (1, ["POST /v1/rollouts", "POST /v1/rollouts/r-2/start"])]
)
def test_what_was_put_back_since_is_rolled_out_again(has: int, made: list[str]) -> None:
    there = ProfileFleet(has)
    roll_out(there)
    assert [one for one in there.asked if one.startswith("POST")] == made


IS_THERE = [
    ("running", {}), ("paused", {}), ("being undone", {"status": "aborted", "undoing": True}),
]  # fmt: skip


@pytest.mark.parametrize(("words", "is_there"), IS_THERE)
def test_a_threshold_waits_for_the_rollout_that_is_there(
    words: str, is_there: dict[str, object]
) -> None:
    there = ProfileFleet(1)
    there.view |= is_there or {"status": words}
    with pytest.raises(
        RolloutRuns, match=f"rollout r-1 of profile slow 2 is {words} in group all; the new"
    ):
        told(there, lambda fleet: check_is_free(fleet, "all"))


def test_a_threshold_waits_for_a_rollout_of_another_group_that_has_its_device() -> None:
    there = ProfileFleet(1)
    there.view["status"] = "running"
    with pytest.raises(RolloutRuns, match="device cam-1 is in it; the new threshold for group nor"):
        told(there, lambda fleet: check_is_free(fleet, "north"))
    told(there, lambda fleet: check_is_free(fleet, "south"))
    there.view["spec"] = there.view["spec"] | {"group": "north"}
    with pytest.raises(RolloutRuns, match="in group north, and device cam-1 is in it"):
        told(there, lambda fleet: check_is_free(fleet, "all"))


def test_a_rollout_of_the_same_settings_is_no_other_unless_it_is_being_undone() -> None:
    there = ProfileFleet(1)
    there.view["status"] = "running"
    told(there, lambda fleet: check_is_free(fleet, "all", "a" * 64))
    there.view |= {"status": "aborted", "undoing": True}
    with pytest.raises(RolloutRuns, match="being undone"):
        told(there, lambda fleet: check_is_free(fleet, "all", "a" * 64))


def test_a_rollout_that_began_since_leaves_no_draft_behind() -> None:
    there = ProfileFleet(1, refusal=409)
    with pytest.raises(RolloutRuns, match="r-1 of profile slow 2 is running"):
        roll_out(there)
    posts = [one for one in there.asked if one.startswith("POST")]
    assert posts[-1] == "POST /v1/rollouts/r-2/abort"


def after_two_looks(loops: LoopStore, folder: Path, there: ProfileFleet) -> int:
    """How often the registry was asked, as each fit begins."""
    registry = Registry(is_away=False)

    async def work(asked: LearningFleet) -> None:
        models = Models((folder,), None, folder)
        refitting = Refitting(
            loops, NoAnswers(), registry, models, asked, Refits(), 60.0, lambda: NOW
        )
        for _ in range(2):
            await refitting.look()

    at(there, work)
    return registry.asked


def test_a_rollout_that_is_there_costs_no_fit_and_no_period(
    loops: LoopStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    there = ProfileFleet(None)
    there.view["status"] = "paused"
    assert after_two_looks(loops, tmp_path, there) == 0
    assert loops.refitted_at("edge") is None
    assert events(caplog) == ["refit_waits"]
    there.view["status"] = "succeeded"
    assert after_two_looks(loops, tmp_path, there) == 1
    assert loops.refitted_at("edge") == NOW


def test_a_key_without_the_role_costs_no_period(
    loops: LoopStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    there = ProfileFleet(1)
    there.refused = 403
    assert after_two_looks(loops, tmp_path, there) == 0
    assert loops.refitted_at("edge") is None
    assert events(caplog) == ["refit_waits"]


def roll_out(there: ProfileFleet) -> None:
    """Version 2 of the profile."""
    settings = ProfileSettings(confidence_min=0.7)
    profile = Profile(
        name="slow", version=2, settings=settings, sha256=digest(settings), pushed_by="loop",
        pushed_at=1.0,
    )  # fmt: skip
    loop = LoopSettings(model="edge", teacher="cloud")
    told(there, lambda fleet: rolled(fleet, loop, profile, "again"))


def told(there: ProfileFleet, what: Callable[[FleetClient], Awaitable[None]]) -> None:
    async def work(settings: LearningFleet) -> None:
        async with fleet_at(settings) as asked:
            await what(asked)

    at(there, work)


def at(there: ProfileFleet, work: Callable[[LearningFleet], Awaitable[None]]) -> None:
    async def main() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", there.answer)
        async with TestServer(app) as server:
            await work(LearningFleet(urls=(str(server.make_url("")),)))

    asyncio.run(main())
