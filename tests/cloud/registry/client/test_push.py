"""Pushes and fetches against a real registry process, over lines that are cut and processes killed."""

import asyncio
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cloud.registry.client.client import RegistryClient
from cloud.registry.client.fetch import fetch_bundle
from cloud.registry.client.push import Plan, ensure_model, parcel_of, plan, push
from cloud.registry.client.settings import ClientSettings
from cloud.registry.client.uploads import BytesSource, FileSource, upload
from cloud.registry.documents import ModelVersion, Origin, StoredFile
from shared.bundle.files import MANIFEST
from shared.bundle.reader import open_bundle
from shared.errors import Conflict, NotTrusted, Refused
from tests.cloud.keyed_process import ROOT
from tests.cloud.registry.client.cutting_proxy import cutting_proxy
from tests.cloud.registry.client.scripted_server import problem, response, scripted
from tests.cloud.registry.servers import RegistryProcess
from tests.tiny_bundle import write_tiny_bundle

SAMPLES = 100_000  # of golden data: 2.8 MB that do not compress
QUICK = ClientSettings(
    patience_s=20.0, upload_patience_s=20.0, pause_s_min=0.01, pause_s_max=0.05, part_bytes=1 << 20
)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    # a sender on a dead line is let go of after a second
    settings = "[api]\nupload_silence_s_max = 1.0\n"
    with RegistryProcess(tmp_path_factory.mktemp("registry"), settings) as running:
        yield running


def big_bundle(folder: Path, name: str, version: str = "1.0.0", scale: float = 12.0) -> Path:
    return write_tiny_bundle(
        folder, name=name, version=version, scale=scale, golden_samples=SAMPLES
    )


def client(registry: RegistryProcess, url: str | None = None) -> RegistryClient:
    return RegistryClient([url or registry.url], registry.key("trainer"), QUICK)


def received(registry: RegistryProcess) -> int:
    """Bytes of uploads that the registry took since it started."""
    text = registry.get("/metrics").body.decode()
    lines = (one for one in text.splitlines() if "_received_bytes_total " in one)
    (line,) = (one for one in lines if not one.startswith("#"))
    return int(float(line.split()[1]))


async def pushed(asked: RegistryClient, folder: Path) -> tuple[Plan, ModelVersion, int]:
    """The plan, what came of it, and the bytes that the progress counted."""
    moved = 0

    def count(amount: int) -> None:
        nonlocal moved
        moved += amount

    planned = await plan(asked, parcel_of(open_bundle(folder), folder))
    await ensure_model(asked, planned.parcel.manifest.name)
    return planned, await push(asked, planned, Origin(), count), moved


def proxied(registry: RegistryProcess) -> tuple[str, int]:
    parts = urlsplit(registry.url)
    return str(parts.hostname), int(parts.port or 0)


def test_only_what_is_missing_is_sent(registry: RegistryProcess, tmp_path: Path) -> None:
    async def work() -> None:
        async with client(registry) as asked:
            planned, version, moved = await pushed(asked, big_bundle(tmp_path / "a", "shared"))
            assert moved == planned.missing_bytes == planned.parcel.total_bytes
            assert version.state == "trained"
            second = write_tiny_bundle(
                tmp_path / "b", name="shared", version="1.0.1", golden_samples=SAMPLES
            )
            again, _, moved = await pushed(asked, second)
            assert moved == again.missing_bytes < 4096  # the manifest alone is another
            whole, same, moved = await pushed(asked, second)
            assert whole.is_registered
            assert (same.version, moved) == ("1.0.1", 0)

    asyncio.run(work())


def test_a_line_that_is_cut_again_and_again(registry: RegistryProcess, tmp_path: Path) -> None:
    async def work() -> None:
        folder = big_bundle(tmp_path / "a", "cut", scale=11.0)
        before = received(registry)
        cuts = [300_000] * 6
        async with (
            cutting_proxy(*proxied(registry), cuts) as proxy,
            client(registry, proxy.url) as asked,
        ):
            planned, version, moved = await pushed(asked, folder)
        assert not cuts
        assert version.manifest.sha256 == planned.parcel.manifest_sha256
        assert moved == planned.missing_bytes
        # what arrived before a cut is not sent again
        assert received(registry) - before == planned.missing_bytes

    asyncio.run(work())


@pytest.mark.parametrize("goes_dead", [False, True], ids=["killed", "killed on a dead line"])
def test_a_push_killed_half_way_goes_on_where_it_was(
    registry: RegistryProcess, tmp_path: Path, goes_dead: bool
) -> None:
    async def work() -> None:
        name = "dead" if goes_dead else "killed"
        folder = big_bundle(tmp_path / "a", name, scale=14.0 + goes_dead)
        before = received(registry)
        async with client(registry) as asked:
            total = (await plan(asked, parcel_of(open_bundle(folder), folder))).missing_bytes
        async with cutting_proxy(*proxied(registry), [1_500_000], goes_dead=True) as proxy:
            process = await start_push(registry, proxy.url, folder)
            await proxy.was_cut.wait()
            process.kill()
            await process.wait()
            if not goes_dead:
                proxy.revive()  # the registry hears that the sender is gone
            async with client(registry) as asked:
                _, version, _ = await pushed(asked, folder)
        assert version.model == name
        assert received(registry) - before == total

    asyncio.run(work())


def test_a_registry_killed_half_way_goes_on_where_it_was(
    registry: RegistryProcess, tmp_path: Path
) -> None:
    async def work() -> None:
        folder = big_bundle(tmp_path / "a", "restarted", scale=16.0)
        async with (
            cutting_proxy(*proxied(registry), [1_500_000], goes_dead=True) as proxy,
            client(registry, proxy.url) as asked,
            asyncio.TaskGroup() as tasks,
        ):
            pushing = tasks.create_task(pushed(asked, folder))
            await proxy.was_cut.wait()
            registry.kill()
            await asyncio.to_thread(registry.start)
            planned, version, moved = await pushing
        assert version.manifest.sha256 == planned.parcel.manifest_sha256
        assert moved == planned.missing_bytes
        assert 0 < received(registry) < planned.missing_bytes  # by the second process

    asyncio.run(work())


def test_two_who_push_the_same_at_once(registry: RegistryProcess, tmp_path: Path) -> None:
    async def work() -> None:
        folder = big_bundle(tmp_path / "a", "twice", scale=17.0)
        async with client(registry) as one, client(registry) as other:
            found = await asyncio.gather(pushed(one, folder), pushed(other, folder))
        assert len({version.revision for _, version, _ in found}) == 1

    asyncio.run(work())


def test_bytes_that_are_all_there_are_not_yet_a_file() -> None:
    async def work() -> None:
        def head(extra: str) -> bytes:
            return f"HTTP/1.1 204 x\r\nUpload-Offset: 3\r\n{extra}\r\n".encode()

        busy = problem(Conflict("somebody else is sending it"))
        answers = [head(""), busy, head(""), head("")]
        async with (
            scripted(*answers) as server,
            RegistryClient([server.url], None, QUICK) as asked,
        ):
            await upload(asked.connection, "0" * 64, 3, BytesSource(b"abc"), lambda _: None)
        assert [method for method, _, _ in server.asked] == ["HEAD", "PATCH", "HEAD", "PATCH"]
        async with (
            scripted(head("Upload-Length: 3\r\n")) as server,
            RegistryClient([server.url], None, QUICK) as asked,
        ):
            await upload(asked.connection, "0" * 64, 3, BytesSource(b"abc"), lambda _: None)
        assert [method for method, _, _ in server.asked] == ["HEAD"]

    asyncio.run(work())


def test_another_content_under_the_same_version(registry: RegistryProcess, tmp_path: Path) -> None:
    async def work() -> None:
        async with client(registry) as asked:
            await pushed(asked, write_tiny_bundle(tmp_path / "a", name="other"))
            with pytest.raises(Conflict, match="versions never change"):
                await pushed(asked, write_tiny_bundle(tmp_path / "b", name="other", scale=9.0))

    asyncio.run(work())


def test_a_file_that_is_not_what_its_hash_says(registry: RegistryProcess) -> None:
    async def work() -> None:
        content = os.urandom(10_000)
        sha256 = hashlib.sha256(b"something else").hexdigest()
        async with client(registry) as asked:
            with pytest.raises(NotTrusted, match="what was sent has sha256"):
                await upload(asked.connection, sha256, 10_000, BytesSource(content), lambda _: None)
            assert await asked.missing([sha256]) == {sha256}

    asyncio.run(work())


def test_a_graph_that_was_changed_is_found_by_the_registry(
    registry: RegistryProcess, tmp_path: Path
) -> None:
    folder = write_tiny_bundle(tmp_path / "bundle", name="changed", scale=7.5)
    graph = next(folder.rglob("*.onnx"))
    graph.write_bytes(graph.read_bytes()[:-1] + b"?")

    async def scenario() -> None:
        async with client(registry) as asked:
            parcel = parcel_of(open_bundle(folder, hashes_graphs=False), folder)
            await ensure_model(asked, "changed")
            with pytest.raises(NotTrusted, match="what was sent has sha256"):
                await push(asked, await plan(asked, parcel), Origin(), lambda _: None)
            assert await asked.versions("changed") == []

    asyncio.run(scenario())


def test_a_file_that_became_shorter(registry: RegistryProcess, tmp_path: Path) -> None:
    async def work() -> None:
        file = tmp_path / "short"
        file.write_bytes(b"12345")
        sha256 = hashlib.sha256(b"1234567890").hexdigest()
        async with client(registry) as asked:
            with pytest.raises(Refused, match="became shorter"):
                await upload(asked.connection, sha256, 10, FileSource(file), lambda _: None)

    asyncio.run(work())


def test_an_empty_file(registry: RegistryProcess) -> None:
    async def work() -> None:
        sha256 = hashlib.sha256(b"").hexdigest()
        async with client(registry) as asked:
            await upload(asked.connection, sha256, 0, BytesSource(b""), lambda _: None)
            assert await asked.missing([sha256]) == set()

    asyncio.run(work())


def test_a_fetch_that_was_cut_goes_on(registry: RegistryProcess, tmp_path: Path) -> None:
    async def work() -> None:
        folder = big_bundle(tmp_path / "a", "fetched", scale=18.0)
        target, moved = tmp_path / "out" / "b", 0
        target.parent.mkdir()

        def count(amount: int) -> None:
            nonlocal moved
            moved += amount

        async with client(registry) as asked:
            _, version, _ = await pushed(asked, folder)
        cuts = [1_000_000] * 2
        async with (
            cutting_proxy(*proxied(registry), cuts, of_answers=True) as proxy,
            client(registry, proxy.url) as asked,
        ):
            manifest = await fetch_bundle(asked, version.manifest, target, count)
        assert not cuts
        assert manifest == open_bundle(folder).manifest == open_bundle(target).manifest
        assert moved == sum(file.bytes for file in version.files)
        assert [path.name for path in target.parent.iterdir()] == ["b"]

    asyncio.run(work())


def test_what_nothing_vouches_for_is_not_fetched_along(
    registry: RegistryProcess, tmp_path: Path
) -> None:
    async def work() -> None:
        async with client(registry) as asked:
            _, version, _ = await pushed(asked, write_tiny_bundle(tmp_path / "a", name="planted"))
            left = tmp_path / f".b.{version.manifest.sha256[:16]}.partial"
            left.mkdir()
            (left / "planted").write_text("by whom?")
            (left / "card.md").write_text("another card")
            await fetch_bundle(asked, version.manifest, tmp_path / "b", lambda _: None)
        assert open_bundle(tmp_path / "b").manifest.name == "planted"

    asyncio.run(work())


def test_a_manifest_that_is_another_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        wanted = StoredFile(path=MANIFEST, sha256=hashlib.sha256(b"one").hexdigest(), bytes=3)
        async with (
            scripted(response(200, b"two")) as server,
            RegistryClient([server.url], None, QUICK) as asked,
        ):
            with pytest.raises(NotTrusted, match=r"manifest.json: came with 3 bytes and sha256"):
                await fetch_bundle(asked, wanted, tmp_path / "b", lambda _: None)

    asyncio.run(work())
    assert list(tmp_path.iterdir()) == []


async def start_push(
    registry: RegistryProcess, url: str, folder: Path
) -> asyncio.subprocess.Process:
    command = ["-m", "cloud.cli", "model", "push", str(folder), "--registry", url]
    return await asyncio.create_subprocess_exec(
        sys.executable, *command, cwd=ROOT,
        env=os.environ | {"HYBRIDGE_API_KEY": registry.key("trainer")},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
