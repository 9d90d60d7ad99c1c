"""When a loop's threshold is fitted anew by itself: who is away is asked again at the next look."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cloud.feedback.answers import AnswerRows
from cloud.feedback.documents import SampleQuery
from cloud.learning.documents import LoopSettings
from cloud.learning.models import Models
from cloud.learning.refitting import Refits, Refitting
from cloud.learning.settings import LearningFleet
from cloud.learning.store.loops import MIGRATIONS, LoopStore
from cloud.learning.store.settings import LoopsKept
from cloud.training.store.database import LearningDatabase
from shared.errors import Unavailable

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
    def answers(self, query: SampleQuery, rows_max: int) -> AnswerRows:
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
async def fleet() -> AsyncIterator[LearningFleet]:
    """With one group, of no profile."""

    async def group(_: web.Request) -> web.Response:
        return web.json_response({"name": "all"})

    app = web.Application()
    app.router.add_get("/v1/groups/all", group)
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
