"""Two workers behind a TCP balancer are replaced one after the other under load: no request fails."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import numpy as np

from cloud.demo.processes import Running, start
from shared.oip.request import InferRequest, RequestedOutput, encode_request
from shared.oip.tensors import Tensor
from tests.end_to_end.balancer import Backend, Balancer
from tests.tiny_bundle import sure_image, write_tiny_bundle

CLIENTS = 8
NOTICE_S = 1.0


@dataclass
class Load:
    """Clients that ask one request after the other, over connections that they keep."""

    answered: int = 0
    failed: list[str] = field(default_factory=list)
    more: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def run(self, url: str) -> None:
        image = Tensor("image", sure_image(1)[None])
        encoded = encode_request(InferRequest((image,), (RequestedOutput("index", binary=True),)))
        async with (
            aiohttp.ClientSession() as session,
            asyncio.TaskGroup() as clients,
        ):
            for _ in range(CLIENTS):
                clients.create_task(self._ask(session, url, encoded.body, encoded.headers))

    async def _ask(
        self, session: aiohttp.ClientSession, url: str, body: bytes, headers: dict[str, str]
    ) -> None:
        while True:
            try:
                async with session.post(url, data=body, headers=headers) as response:
                    content = await response.read()
                    right = content.endswith(np.int64(2).tobytes())
                    if response.status != 200 or not right:
                        self.failed.append(f"{response.status} {content[:200]!r}")
            except aiohttp.ClientError as error:
                self.failed.append(repr(error))
            async with self.more:
                self.answered += 1
                self.more.notify_all()

    async def some_more(self) -> None:
        async with self.more:
            enough = self.answered + 20 * CLIENTS
            await self.more.wait_for(lambda: self.answered >= enough)


@dataclass
class Workers:
    folder: Path
    running: dict[str, Running] = field(default_factory=dict)

    async def up(self, name: str) -> Backend:
        arguments = (
            "-m", "cloud", "serve", "--config", str(self.folder / "cloud.toml"),
            "--name", name, "--state-dir", str(self.folder / name),
        )  # fmt: skip
        self.running[name] = await start(name, arguments, self.folder)
        parts = urlsplit(self.running[name].ready["api"])
        assert parts.hostname is not None
        assert parts.port is not None
        return Backend(parts.hostname, parts.port)

    async def down(self, name: str) -> int | None:
        return await self.running.pop(name).end(signal.SIGTERM)


@asynccontextmanager
async def workers(folder: Path) -> AsyncIterator[Workers]:
    write_tiny_bundle(folder / "bundle", name="tiny-cloud", escalates=False, shift=1)
    (folder / "cloud.toml").write_text(
        f'notice_s = {NOTICE_S}\n[[models]]\nbundle = "bundle"\n[api]\nport = 0\n'
    )
    them = Workers(folder)
    try:
        yield them
    finally:
        for name in tuple(them.running):
            await them.down(name)


async def _scenario(folder: Path) -> None:
    load, balancer = Load(), Balancer()
    async with workers(folder) as them, asyncio.TaskGroup() as parts:
        port = await balancer.start(parts)
        backends = {name: await them.up(name) for name in ("first", "second")}
        for backend in backends.values():
            balancer.add(backend)
            await backend.until(healthy=True)
        loading = parts.create_task(load.run(f"http://127.0.0.1:{port}/v2/models/tiny-cloud/infer"))
        await load.some_more()
        for name in ("first", "second"):
            code = await them.down(name)
            assert code == 0, f"{name} ended with {code}"
            await backends[name].until(healthy=False)
            await load.some_more()
            backend = await them.up(f"{name}-again")
            balancer.add(backend)
            await backend.until(healthy=True)
            await load.some_more()
        loading.cancel()
        await balancer.stop()
    assert load.failed == []


def test_no_request_fails_while_both_are_replaced(tmp_path: Path) -> None:
    asyncio.run(_scenario(tmp_path))
