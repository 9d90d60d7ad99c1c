"""The copier on a real artifact store, from a server that does what the test says."""

import asyncio
import hashlib
import os
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.registry.replication.copier import Copier
from cloud.registry.replication.peer import Peer
from cloud.registry.replication.settings import HomeSettings
from shared.errors import Disconnected, Malformed, NotTrusted, TooLarge

CONTENT = os.urandom(3_000_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """Serves `files`; `cut_at`: the connection ends after so many bytes of an answer."""

    def __init__(self, files):
        self.files, self.cut_at, self.ranges_work = files, None, True
        self.asked, self.at_once, self.most_at_once = [], 0, 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def serve(self, request):
        content = self.files.get(request.match_info["sha256"])
        if content is None:
            raise web.HTTPNotFound
        asked = request.headers.get("Range")
        self.asked.append(asked)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self.gate.wait()
        try:
            return await self._send(request, content, asked)
        finally:
            self.at_once -= 1

    async def _send(self, request, content, asked):
        start = int(asked[6:-1]) if asked and self.ranges_work else 0
        if start >= len(content):
            return web.Response(status=416, headers={"Content-Range": f"bytes */{len(content)}"})
        response = web.StreamResponse(status=206 if start else 200)
        if start:
            response.headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        response.content_length = len(content) - start
        await response.prepare(request)
        end = len(content) if self.cut_at is None else start + self.cut_at
        await response.write(content[start:end])
        if end < len(content):
            request.transport.abort()
        return response


@asynccontextmanager
async def copying(tmp_path, server, **changes):
    app = web.Application()
    app.router.add_get("/v1/artifacts/{sha256}", server.serve)
    async with TestServer(app) as running:
        url = str(running.make_url("")).rstrip("/")
        settings = HomeSettings(urls=(url,), root=tmp_path / "root.json", **changes)
        artifacts = Artifacts(ArtifactSettings(free_bytes_min=1), tmp_path)
        async with Peer(url, None, wait_s_max=1.0, transfers=settings.copies_max) as peer:
            yield Copier(artifacts, settings), peer, artifacts


def run(tmp_path, server, work, **changes):
    async def scenario():
        async with copying(tmp_path, server, **changes) as (copier, peer, artifacts):
            return await work(copier, peer, artifacts)

    return asyncio.run(scenario())


def test_what_is_here_already_is_not_asked_for(tmp_path):
    server = Server({SHA256: CONTENT})

    async def work(copier, peer, artifacts):
        await artifacts.put_bytes(CONTENT)
        assert await copier.copy(peer, {SHA256: len(CONTENT)}) == frozenset()

    run(tmp_path, server, work)
    assert server.asked == []


def test_a_copy_that_was_cut_goes_on_where_it_was(tmp_path):
    server = Server({SHA256: CONTENT})

    async def work(copier, peer, artifacts):
        server.cut_at = 2_500_000
        with pytest.raises(Disconnected):
            await copier.copy(peer, {SHA256: len(CONTENT)})
        server.cut_at = None
        assert await artifacts.has([SHA256]) == set()
        await copier.copy(peer, {SHA256: len(CONTENT)})
        assert await artifacts.read(SHA256, 1 << 30) == CONTENT
        assert copier.copied_bytes < len(CONTENT)

    run(tmp_path, server, work)
    first, second = server.asked
    assert first is None
    assert int(second[6:-1]) >= 1_000_000


@pytest.mark.parametrize("size", [len(CONTENT), len(CONTENT) + 5], ids=["whole", "longer"])
def test_what_a_kill_left_just_before_it_was_moved_in_holds_nothing_up(tmp_path, size):
    async def work(copier, peer, artifacts):
        left = tmp_path / "artifacts" / "uploads" / f"{SHA256}.{size}.part"
        left.parent.mkdir(parents=True, exist_ok=True)
        left.write_bytes(CONTENT.ljust(size, b"x"))
        assert await artifacts.uploads.offset(SHA256) == size
        with suppress(Disconnected):  # of another size: begun anew, at the next try
            await copier.copy(peer, {SHA256: None})
        await copier.copy(peer, {SHA256: None})
        assert await artifacts.read(SHA256, 1 << 30) == CONTENT

    run(tmp_path, Server({SHA256: CONTENT}), work)


def test_a_server_that_knows_no_ranges_is_copied_from_all_the_same(tmp_path):
    server = Server({SHA256: CONTENT})

    async def work(copier, peer, artifacts):
        server.cut_at = 2_500_000
        with pytest.raises(Disconnected):
            await copier.copy(peer, {SHA256: None})
        server.cut_at, server.ranges_work = None, False
        await copier.copy(peer, {SHA256: None})
        assert await artifacts.read(SHA256, 1 << 30) == CONTENT

    run(tmp_path, server, work)


def test_another_content_never_becomes_the_artifact(tmp_path):
    async def work(copier, peer, artifacts):
        with pytest.raises(NotTrusted):
            await copier.copy(peer, {SHA256: len(CONTENT)})
        assert await artifacts.has([SHA256]) == set()

    run(tmp_path, Server({SHA256: CONTENT[:-1] + bytes([CONTENT[-1] ^ 1])}), work)


def test_another_length_than_the_logs_is_refused_before_a_byte_is_kept(tmp_path):
    async def work(copier, peer, artifacts):
        with pytest.raises(Malformed, match="in the log"):
            await copier.copy(peer, {SHA256: 10})
        assert await artifacts.uploads.offset(SHA256) is None

    run(tmp_path, Server({SHA256: CONTENT}), work)


def test_what_is_over_the_bound_is_refused_before_a_byte_is_kept(tmp_path):
    async def work(copier, peer, artifacts):
        with pytest.raises(TooLarge, match="artifact_bytes_max"):
            await copier.copy(peer, {SHA256: None})
        assert await artifacts.uploads.offset(SHA256) is None

    run(tmp_path, Server({SHA256: CONTENT}), work, artifact_bytes_max=1000)


def test_what_is_gone_there_is_told_and_the_rest_is_copied(tmp_path):
    async def work(copier, peer, artifacts):
        assert await copier.copy(peer, {"0" * 64: 7, SHA256: len(CONTENT)}) == {"0" * 64}
        assert await artifacts.has([SHA256]) == {SHA256}

    run(tmp_path, Server({SHA256: CONTENT}), work)


def test_no_more_are_copied_at_once_than_the_settings_say(tmp_path):
    files = {hashlib.sha256(c).hexdigest(): c for c in (bytes([n]) * 2000 for n in range(20))}
    server = Server(files)

    async def work(copier, peer, artifacts):
        server.gate.clear()
        copying = asyncio.create_task(copier.copy(peer, dict.fromkeys(files)))
        while server.at_once < 3:  # noqa: ASYNC110  the server counts
            await asyncio.sleep(0)
        for _ in range(20):  # round trips, in which a fourth would have come
            await artifacts.has(list(files))
        server.gate.set()
        await copying
        assert len(await artifacts.has(list(files))) == 20

    run(tmp_path, server, work, copies_max=3)
    assert server.most_at_once == 3
