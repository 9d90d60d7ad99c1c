"""The floor: a server that keeps what is put and gives it back, and checks nothing.

    python -m simulations.registry_bench.plain_http FOLDER

Prints its URL. The same library as the registry's, the same disk.
"""

import asyncio
import sys
from pathlib import Path

from aiohttp import web

_PIECE = 1024 * 1024


def application(folder: Path) -> web.Application:
    async def take(request: web.Request) -> web.Response:
        with (folder / request.match_info["name"]).open("wb") as file:
            while piece := await request.content.read(_PIECE):
                file.write(piece)
        return web.Response(status=201)

    async def give(request: web.Request) -> web.FileResponse:
        return web.FileResponse(folder / request.match_info["name"])

    app = web.Application()
    app.router.add_put("/{name}", take)
    app.router.add_get("/{name}", give)
    return app


async def _serve(folder: Path) -> None:
    runner = web.AppRunner(application(folder), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(Path(sys.argv[1])))
