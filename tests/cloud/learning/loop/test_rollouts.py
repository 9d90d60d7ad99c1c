"""Rollouts and profiles of a loop on a real fleet, which asks a real registry."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from cloud.feedback.answers import AnswerRows
from cloud.feedback.documents import SampleQuery
from cloud.learning.documents import LoopSettings
from cloud.learning.loop import commands as c
from cloud.learning.loop.rollout_hand import RolloutHand
from cloud.learning.models import Models
from cloud.learning.refitting import Refits, Refitting
from cloud.learning.settings import LearningFleet
from cloud.learning.store.loops import MIGRATIONS, LoopStore
from cloud.learning.store.settings import LoopsKept
from cloud.rollouts.documents import RolloutStatus
from cloud.training.store.database import LearningDatabase
from shared.errors import Conflict
from tests.cloud.fleet.light import MODEL, light_devices
from tests.cloud.fleet.servers import FleetProcess, fleet
from tests.cloud.keyed_process import until
from tests.cloud.learning.servers import LoopRegistry
from tests.tiny_bundle import write_tiny_bundle

pytestmark = pytest.mark.slow
ROLL = c.Roll(
    model=MODEL, version="1.1.0", group="all", seed="m-7", stages="fast", watch_s=0.0, comment="try"
)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[LoopRegistry]:
    with LoopRegistry(tmp_path / "home") as running:
        running.trust.publish(running, MODEL)
        running.released(tmp_path / "m-2", MODEL, "1.1.0", approval="rule")
        yield running


@pytest.fixture
def process(registry: LoopRegistry, tmp_path: Path) -> Iterator[FleetProcess]:
    asked = f'[registry]\nurls = ["{registry.url}"]\napi_key_file = "{registry.loop_key}"\n'
    with fleet(tmp_path / "fleet", asked) as running:
        yield running


@pytest.fixture
def settings(process: FleetProcess) -> LearningFleet:
    return LearningFleet(urls=(process.url,), api_key_file=process.key_file("operator"))


def test_a_cycles_rollout_is_made_once_and_seen_to_its_end(
    process: FleetProcess, settings: LearningFleet
) -> None:
    hand = RolloutHand(settings)
    with light_devices(process.broker, 3):
        until(lambda: process.get("/v1/fleet").json["online"] == 3)
        first = asyncio.run(hand.rolled(ROLL))
        assert asyncio.run(hand.rolled(ROLL)) == first
        assert len(process.get("/v1/rollouts").json["rollouts"]) == 1
        watch = c.WatchRollout(
            model=MODEL, version="1.1.0", rollout=first.rollout, since=time.time()
        )
        until(lambda: asyncio.run(hand.seen(watch)).status is RolloutStatus.SUCCEEDED)
        assert asyncio.run(hand.alarms(MODEL)) == ()
        assert asyncio.run(hand.accuracy(MODEL, "1.1.0", "all")) is None
        words = asyncio.run(hand.undone(c.Undo(rollout=first.rollout or "", why="late"))).words
        assert "stays as it is" in words


def test_a_rollout_that_runs_is_undone_once(process: FleetProcess, settings: LearningFleet) -> None:
    hand = RolloutHand(settings)
    with light_devices(process.broker, 3):
        until(lambda: process.get("/v1/fleet").json["online"] == 3)
        long = ROLL.model_copy(update={"stages": "default", "seed": "m-8"})
        made = asyncio.run(hand.rolled(long))
        undo = c.Undo(rollout=made.rollout or "", why="an alarm")
        assert "being undone" in asyncio.run(hand.undone(undo)).words
        again = asyncio.run(hand.undone(undo)).words
        assert "undone" in again or "stays" in again


class Answers:
    """What a device that is right nine times in ten sent."""

    def answers(self, query: SampleQuery, rows_max: int, devices: Sequence[str] = ()) -> AnswerRows:
        assert not devices
        assert (query.model, query.version, rows_max) == (MODEL, "1.1.0", 50_000)
        rng = np.random.default_rng(0)
        confidence = rng.random(5000)
        wrong = rng.random(5000) < (1 - confidence) / 5
        ones = np.ones(5000, np.int64)
        return AnswerRows(
            confidence, wrong.astype(np.int64) + 1, ones, ones, ones.astype(np.uint8), np.ones(5000)
        )


class Current:
    async def current(self, model: str) -> str | None:
        assert model == MODEL
        return "1.1.0"


def test_a_refit_is_rolled_out_as_the_groups_profile_once(
    process: FleetProcess, settings: LearningFleet, tmp_path: Path
) -> None:
    write_tiny_bundle(tmp_path / "bundles" / MODEL, name=MODEL, version="1.1.0")
    database = LearningDatabase(f"sqlite:///{tmp_path / 'learning.db'}")
    database.open(MIGRATIONS)
    store = LoopStore(database, LoopsKept())
    store.put(LoopSettings(model=MODEL, teacher="t", rollout_stages="fast"), None, 1.0)
    models = Models((tmp_path / "bundles",), None, tmp_path / "state")

    def refitting(asked: LearningFleet | None) -> Refitting:
        return Refitting(store, Answers(), Current(), models, asked, Refits(), 60.0, lambda: 1000.0)

    with light_devices(process.broker, 2):
        until(lambda: process.get("/v1/fleet").json["online"] == 2)
        would = asyncio.run(refitting(settings).fitted(MODEL))
        assert process.get("/v1/profiles").json["profiles"] == []
        found = asyncio.run(refitting(settings).apply(MODEL, "ann", "fewer escalations"))
        assert found == would
        assert 0.5 < found.confidence_min < 0.9
        asyncio.run(refitting(settings).apply(MODEL, "ann", "again"))
        (profile,) = process.get("/v1/profiles").json["profiles"]
        assert profile["settings"]["confidence_min"] == pytest.approx(found.confidence_min)
        (rollout,) = process.get("/v1/rollouts").json["rollouts"]
        assert rollout["spec"]["subject"]["kind"] == "profile"
        assert rollout["status"] != "draft"
        until(lambda: process.get("/v1/groups/all").json["profile"] is not None)
    assert store.refitted_at(MODEL) == 1000.0
    with pytest.raises(Conflict, match=r"no \[fleet\]"):
        asyncio.run(refitting(None).apply(MODEL, "ann", ""))
    database.close()
