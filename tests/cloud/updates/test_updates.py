"""A real pool follows a real registry process."""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cloud.serving.pool import ModelPool
from cloud.updates.bundles import TRIES_MAX, Bundles
from cloud.updates.settings import RegistryModels
from cloud.updates.updates import Updates
from shared.errors import Refused, Unavailable
from shared.trust.releases import ReleaseTarget
from shared.trust.store import TrustStore
from tests.cloud.registry.pushing import MODEL, candidate, make_model
from tests.cloud.registry.servers import RegistryProcess
from tests.cloud.registry.trust_keys import TrustKeys
from tests.cloud.serving import pools
from tests.tiny_bundle import sure_image, write_tiny_bundle

WAIT_S = 20.0


class House:
    """A registry with keys, and what a worker keeps."""

    def __init__(self, folder: Path, keys: TrustKeys, registry: RegistryProcess) -> None:
        self.folder, self.keys, self.registry = folder, keys, registry
        self.bundles = Bundles(folder / "worker")
        self.root = folder / "1.root.json"
        self.root.write_bytes(keys.ceremony.root)

    def release(self, version: str, shift: int) -> None:
        pushed = candidate(self.registry, self.folder / version, version, shift=shift)
        metadata = self.keys.release(self.registry, MODEL, version, pushed["manifest"])
        self._move(version, "release", metadata)

    def retire(self, version: str) -> None:
        self._move(version, "retire", self.keys.retirement(self.registry, MODEL, version))

    def _move(self, version: str, what: str, metadata: object) -> None:
        path = f"/v1/models/{MODEL}/versions/{version}/{what}"
        reply = self.registry.call("POST", path, {"comment": "a test", "metadata": metadata})
        assert reply.status == 200, reply.body

    @asynccontextmanager
    async def worker(
        self, *, asks: bool = True, urls: tuple[str, ...] = (), **settings: Any
    ) -> AsyncIterator[tuple[ModelPool, Updates]]:
        """A pool and who follows for it; `asks`: the registry too, not the disk alone.

        `urls`: of registries that are asked before the real one.
        """
        tree = {
            "urls": (*urls, self.registry.url), "api_key_file": self.registry.key_file("fetch"),
            "root": self.root, "models": (MODEL,), "poll_s": 0.05, "stall_s_max": 1.0,
        }  # fmt: skip
        parsed = RegistryModels.model_validate(tree | settings)
        self.bundles.make()
        async with asyncio.timeout(WAIT_S), pools.running(folder=self.bundles.folder) as pool:
            follows = Updates(parsed, self.bundles, pool, "w1", random.Random(1))
            await follows.start()
            running = asyncio.create_task(follows.run()) if asks else None
            try:
                yield pool, follows
            finally:
                if running is not None:
                    running.cancel()
                    await asyncio.wait([running])


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> TrustKeys:
    return TrustKeys(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def house(tmp_path: Path, keys: TrustKeys) -> Iterator[House]:
    settings = keys.settings + "[evaluation]\nprocesses = 0\n"
    with RegistryProcess(tmp_path / "registry", settings) as registry:
        keys.publish(registry, MODEL)
        make_model(registry)
        yield House(tmp_path, keys, registry)


async def until_serves(pool: ModelPool, version: str) -> None:
    while version not in pool.versions(MODEL) or pool.find(MODEL).version != version:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def answer(pool: ModelPool) -> int:
    rows = np.stack([sure_image(0)])
    ran = await pool.find(MODEL).batcher.infer(rows, asyncio.get_running_loop().time() + 5)
    return int(ran.outputs.logits[0].argmax())


def test_the_newest_release_answers_and_a_retired_one_no_more(house: House) -> None:
    async def scenario() -> None:
        house.release("1.0.0", shift=0)
        async with house.worker() as (pool, follows):
            assert follows.why_not_ready == f"waiting for the registry: {MODEL}"
            await until_serves(pool, "1.0.0")
            assert await answer(pool) == 0
            await asyncio.to_thread(house.release, "2.0.0", 1)
            await until_serves(pool, "2.0.0")
            assert await answer(pool) == 1
            assert follows.why_not_ready is None
            await asyncio.to_thread(house.retire, "2.0.0")
            await until_serves(pool, "1.0.0")
            assert await answer(pool) == 0
            while "2.0.0" in pool.versions(MODEL):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    asyncio.run(scenario())


def test_the_registry_hears_what_is_served(house: House) -> None:
    async def scenario() -> None:
        house.release("1.0.0", shift=0)
        async with house.worker() as (pool, _):
            await until_serves(pool, "1.0.0")
            while not (known := house.registry.get("/v1/runners").json["runners"]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert [known[0][name] for name in ("name", "model", "version", "variant")] == [
                "w1", MODEL, "1.0.0", "onnxruntime/fp32",
            ]  # fmt: skip

    asyncio.run(scenario())


def test_what_is_here_is_served_while_the_registry_is_away(house: House) -> None:
    async def scenario() -> None:
        house.release("1.0.0", shift=0)
        async with house.worker() as (pool, _):
            await until_serves(pool, "1.0.0")
        house.registry.kill()
        async with house.worker(asks=False) as (pool, follows):
            assert follows.why_not_ready is None
            assert await answer(pool) == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("harm", ["flipped", "other manifest"])
def test_a_bundle_that_was_changed_on_disk_is_fetched_again(house: House, harm: str) -> None:
    async def scenario() -> None:
        house.release("1.0.0", shift=0)
        async with house.worker() as (pool, _):
            await until_serves(pool, "1.0.0")
        (folder,) = house.bundles.folder.iterdir()
        if harm == "flipped":
            graph = next(folder.rglob("*.onnx"))
            content = bytearray(graph.read_bytes())
            content[len(content) // 2] ^= 1
            graph.write_bytes(content)
        else:  # a whole bundle, with hashes that fit, which nobody signed
            shutil.rmtree(folder)
            write_tiny_bundle(folder, name=MODEL, version="1.0.0", shift=2)
        async with house.worker(asks=False) as (pool, follows):
            assert follows.why_not_ready is not None
            assert pool.versions(MODEL) == ()
        async with house.worker() as (pool, _):
            await until_serves(pool, "1.0.0")
            assert await answer(pool) == 0

    asyncio.run(scenario())


def test_a_registry_that_the_pinned_root_does_not_know_gives_nothing(
    house: House, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        house.release("1.0.0", shift=0)
        house.root.write_bytes(TrustKeys(tmp_path / "others").ceremony.root)
        async with house.worker() as (pool, follows):
            while "registry_gave_nothing" not in caplog.messages:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert follows.why_not_ready is not None
            assert pool.versions(MODEL) == ()

    asyncio.run(scenario())


def test_a_version_that_was_fetched_when_a_worker_was_killed_is_taken(house: House) -> None:
    async def scenario() -> None:
        house.release("1.0.0", shift=0)
        async with house.worker() as (pool, _):
            await until_serves(pool, "1.0.0")
        (folder,) = house.bundles.folder.iterdir()
        folder.rename(house.bundles.fetched(await newest(house)))
        async with house.worker() as (pool, _):
            await until_serves(pool, "1.0.0")

    asyncio.run(scenario())


def test_the_one_before_answers_where_the_newest_does_not_open_and_nobody_may_be_asked(
    house: House,
) -> None:
    async def scenario() -> None:
        house.release("1.0.0", shift=0)
        async with house.worker() as (pool, _):
            await until_serves(pool, "1.0.0")
            await asyncio.to_thread(house.release, "2.0.0", 1)
            await until_serves(pool, "2.0.0")
        graph = next((house.bundles.folder / f"{MODEL}-2.0.0").rglob("*.onnx"))
        graph.write_bytes(graph.read_bytes()[:-1])
        async with house.worker(asks=False) as (pool, follows):
            assert follows.why_not_ready is None
            assert await answer(pool) == 0

    asyncio.run(scenario())


def test_a_key_file_that_is_away_for_a_moment_ends_nothing(
    house: House, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        house.release("1.0.0", shift=0)
        away = tmp_path / "away"
        async with house.worker(api_key_file=away) as (pool, _):
            while "registry_gave_nothing" not in caplog.messages:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            away.write_bytes(house.registry.key_file("fetch").read_bytes())
            await until_serves(pool, "1.0.0")

    asyncio.run(scenario())


def test_the_next_registry_is_asked_where_one_answers_wrongly(house: House) -> None:
    asked: set[str] = set()

    async def handle(request: web.Request) -> web.StreamResponse:
        asked.add(how := request.match_info["how"])
        if how == "error":
            return web.Response(status=500)
        if how == "foreign":
            return web.json_response({"signed": {}, "signatures": []})
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionError):
            while True:
                await response.write(b" ")
                await asyncio.sleep(0.1)
        return response

    async def scenario() -> None:
        house.release("1.0.0", shift=0)
        server = TestServer(web.Application())
        server.app.router.add_route("GET", "/{how}/tuf/{name}", handle)
        async with server:
            urls = tuple(str(server.make_url(f"/{how}")) for how in ("error", "foreign", "drip"))
            async with house.worker(urls=urls) as (pool, _):
                await until_serves(pool, "1.0.0")
        assert asked == {"error", "foreign", "drip"}

    asyncio.run(scenario())


def test_who_waits_for_a_siblings_download_can_be_ended(tmp_path: Path) -> None:
    bundles = Bundles(tmp_path)
    bundles.make()

    async def want() -> None:
        async with bundles.alone("bundles"):
            raise AssertionError("it is not free")

    async def scenario() -> None:
        async with bundles.alone("bundles"):
            waiting = asyncio.create_task(want())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            assert waiting.cancelled()
            async with bundles.alone("trust"):  # looks go on meanwhile
                pass

    asyncio.run(scenario())


def test_nothing_is_removed_while_a_sibling_fetches(tmp_path: Path) -> None:
    bundles = Bundles(tmp_path)
    bundles.make()
    (bundles.folder / f".fetched-a-{'0' * 16}").mkdir()

    async def scenario() -> None:
        async with bundles.alone("bundles"):
            bundles.prune("a", [])
            assert len(list(bundles.folder.iterdir())) == 1
        bundles.prune("a", [])
        assert list(bundles.folder.iterdir()) == []

    asyncio.run(scenario())


async def newest(house: House) -> ReleaseTarget:
    trusted = await TrustStore(house.bundles.trust, house.root.read_bytes()).load(
        MODEL, datetime.now(UTC)
    )
    assert trusted.newest is not None
    return trusted.newest


def test_a_version_whose_load_ends_the_worker_again_and_again_is_not_loaded_any_more(
    tmp_path: Path,
) -> None:
    bundles = Bundles(tmp_path)
    bundles.make()
    fatal, other = (ReleaseTarget(MODEL, v, digit * 64, 1, 1) for v, digit in ("1a", "2b"))
    gone = [bundles.loading(fatal) for _ in range(TRIES_MAX)]
    for one in gone:
        one.__enter__()  # and the process is gone
    with pytest.raises(Refused, match="release another version"), bundles.loading(fatal):
        pytest.fail("it is loaded")
    for _ in range(2 * TRIES_MAX):
        with pytest.raises(Unavailable), bundles.loading(other):
            raise Unavailable("an error is an orderly end")
    with bundles.loading(other):
        pass


def test_only_what_may_still_be_served_stays_on_disk(tmp_path: Path) -> None:
    bundles = Bundles(tmp_path)
    bundles.make()
    digest = "0" * 16
    others = ["a-2.0.0", "a-b-1.0.0", f".fetched-a-b-{digest}"]
    for name in (*others, "a-1.0.0", f".fetched-a-{digest}", f"..fetched-a-{digest}.12.partial"):
        (bundles.folder / name).mkdir()
    bundles.prune("a", ["2.0.0"])
    assert sorted(entry.name for entry in bundles.folder.iterdir()) == sorted(others)
