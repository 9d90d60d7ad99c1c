"""What a serving process tells its siblings: on a Unix socket that only this user can open."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web

from cloud.processes.together import Together
from cloud.serving.pool import ModelPool
from shared.errors import HybridgeError, Malformed, Unavailable
from shared.oip.documents import parse

_BODY_BYTES_MAX = 4096


class Inner:
    """`together` of this process alone."""

    def __init__(self, together: Together, pool: ModelPool) -> None:
        self._together, self._pool = together, pool

    @contextlib.asynccontextmanager
    async def listening(self, path: Path) -> AsyncIterator[None]:
        """Serve at `path` until the block ends. Raises `Unavailable`."""
        app = web.Application(client_max_size=_BODY_BYTES_MAX)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/status", self._status)
        app.router.add_get("/v1/experiments", self._experiments)
        app.router.add_post("/models/{model}/{verb:load|unload}", self._change)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            _clear(path)
            await web.UnixSite(runner, str(path)).start()
        except OSError as error:
            await runner.cleanup()
            raise Unavailable(f"{path}: cannot listen there: {error}") from error
        try:
            yield
        finally:
            await runner.cleanup()

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._together.own_metrics())

    async def _status(self, _: web.Request) -> web.Response:
        return web.Response(text=(await self._together.status()).model_dump_json())

    async def _experiments(self, _: web.Request) -> web.Response:
        return web.Response(text=(await self._together.experiments()).model_dump_json())

    async def _change(self, request: web.Request) -> web.Response:
        try:
            version = parse(await request.read(), "the body").get("version")
            if version is not None and not isinstance(version, str):
                raise Malformed("version must be a string")
            name = request.match_info["model"]
            if request.match_info["verb"] == "load":
                await self._pool.load(name, version)
            else:
                await self._pool.unload(name, version)
        except HybridgeError as error:
            return web.Response(status=409, text=str(error))
        return web.Response(text=json.dumps({}))


def _clear(path: Path) -> None:
    """The folder is this user's alone; a process that was killed left its socket behind."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    path.unlink(missing_ok=True)
