"""The part of the agent that keeps its certificate fresh, against a real region."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from edge.identity.files import present
from edge.identity.renewing import Renewing
from edge.identity.settings import Identity
from tests.edge.identity.region_api import region_api

DAY_S = 86_400.0


class Events(logging.Handler):
    """What was logged, by event name, to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self._came = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.names.append(record.msg)
        self._came.set()

    async def until(self, name: str) -> None:
        async with asyncio.timeout(10):
            while name not in self.names:
                self._came.clear()
                await self._came.wait()


@asynccontextmanager
async def renewing(
    url: str, state_dir: Path, **settings: float
) -> AsyncIterator[tuple[Renewing, Events]]:
    told = Identity(
        url=url, **{"retry_s_min": 0.001, "retry_s_max": 0.002, "look_s": 0.001} | settings
    )
    part, events = Renewing(told, "cam-1", state_dir, random.Random(1)), Events()
    log = logging.getLogger("edge.identity.renewing")
    log.addHandler(events)
    log.setLevel(logging.INFO)
    try:
        async with asyncio.timeout(20), asyncio.TaskGroup() as parts:
            parts.create_task(part.run())
            yield part, events
            part.drain()
    finally:
        log.removeHandler(events)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("region")


def serial_in(state_dir: Path) -> str:
    own = present(state_dir)
    assert own is not None
    return own.serial


def test_a_certificate_in_its_last_third_is_renewed_and_then_left_alone(
    folder: Path, tmp_path: Path
) -> None:
    async def work() -> None:
        async with region_api(folder) as region:
            old = region.enrolled_before("cam-1", tmp_path, time.time() - 80 * DAY_S, 90)
            async with renewing(region.url, tmp_path) as (part, events):
                await events.until("certificate_renewed")
                assert part.serial == serial_in(tmp_path) != old
            assert region.shown == [old]

    asyncio.run(work())


def test_a_new_certificate_is_left_alone(folder: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with region_api(folder) as region:
            serial = region.enrolled_before("cam-1", tmp_path, time.time(), 90)
            part = Renewing(Identity(url=region.url), "cam-1", tmp_path, random.Random(1))
            part.drain()  # after one look
            own = present(tmp_path)
            assert own is not None
            assert part._due_in_s(own) == DAY_S
            await part.run()
            assert region.shown == []
            assert serial_in(tmp_path) == serial

    asyncio.run(work())


def test_failures_are_logged_once_and_tried_again(folder: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with region_api(folder) as region:
            region.enrolled_before("cam-1", tmp_path, time.time() - 80 * DAY_S, 90)
            failures = 0
            good = region._issue

            def busy(csr: str, name: str) -> web.Response:
                nonlocal failures
                failures += 1
                return web.Response(status=503) if failures < 6 else good(csr, name)

            region._issue = busy  # type: ignore[method-assign]
            async with renewing(region.url, tmp_path) as (_, events):
                await events.until("certificate_renewed")
            assert failures == 6
            assert events.names == ["certificate_not_renewed", "certificate_renewed"]

    asyncio.run(work())


def test_an_agent_that_is_not_enrolled_waits_and_says_so_once(folder: Path, tmp_path: Path) -> None:
    async def work() -> None:
        async with region_api(folder) as region, renewing(region.url, tmp_path) as (part, events):
            await events.until("not_enrolled")
            assert part.serial is None
            old = region.enrolled_before("cam-1", tmp_path, time.time() - 80 * DAY_S, 90)
            await events.until("certificate_renewed")
            assert events.names == ["not_enrolled", "certificate_renewed"]
            assert region.shown == [old]

    asyncio.run(work())


def test_it_ends_while_the_region_does_not_answer(tmp_path: Path, folder: Path) -> None:
    async def work() -> None:
        asked, never = asyncio.Event(), asyncio.Event()

        async with region_api(folder) as region:
            region.enrolled_before("cam-1", tmp_path, time.time() - 80 * DAY_S, 90)

            async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                asked.set()
                await never.wait()
                writer.close()

            server = await asyncio.start_server(accept, "127.0.0.1", 0)
            port = server.sockets[0].getsockname()[1]
            async with renewing(f"https://127.0.0.1:{port}", tmp_path, timeout_s=600):
                await asked.wait()  # then it is drained
            never.set()
            server.close()

    asyncio.run(work())
