"""The HTTP application: health in the Open Inference Protocol's paths, metrics, status."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from pydantic import BaseModel, ConfigDict

from cloud.api.problems import reporting
from cloud.monitoring.metrics import Metrics
from shared.errors import InUse
from shared.http_noise import quiet_logger

METRICS = web.AppKey("metrics", Metrics)
_BODY_BYTES_MAX = 64 * 1024  # nothing here takes a body yet
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ModelStatus(BaseModel):
    model_config = ConfigDict(frozen=True, protected_namespaces=())

    name: str
    version: str
    answers_for: tuple[str, ...]
    variant: str
    why: str
    queue_depth: int
    batch_ms: dict[int, float]


class Status(BaseModel):
    model_config = ConfigDict(frozen=True)

    name: str
    ready: bool
    not_ready_because: str | None
    broker: str | None
    in_hand: int
    store_up: bool
    models: tuple[ModelStatus, ...]


def application(status: Callable[[], Status], metrics: Metrics) -> web.Application:
    async def live(_: web.Request) -> web.Response:
        return web.json_response({"live": True})

    async def ready(_: web.Request) -> web.Response:
        now = status()
        body = {"ready": now.ready, "because": now.not_ready_because}
        return web.json_response(body, status=200 if now.ready else 503)

    async def numbers(_: web.Request) -> web.Response:
        for model in status().models:
            metrics.queue_depth.labels(model.name).set(model.queue_depth)
        return web.Response(body=metrics.text(), headers={"Content-Type": _CONTENT_TYPE})

    async def state(_: web.Request) -> web.Response:
        return web.Response(text=status().model_dump_json(), content_type="application/json")

    app = web.Application(client_max_size=_BODY_BYTES_MAX, middlewares=[reporting(metrics)])
    app[METRICS] = metrics
    app.router.add_get("/v2/health/live", live)
    app.router.add_get("/v2/health/ready", ready)
    app.router.add_get("/metrics", numbers)
    app.router.add_get("/v1/status", state)
    return app


@asynccontextmanager
async def listening(app: web.Application, host: str, port: int) -> AsyncGenerator[str]:
    """Serve until the block ends; gives the URL. Raises `InUse` for a port that is taken."""
    unreadable = app[METRICS].http_unreadable
    runner = web.AppRunner(
        app, access_log=None, shutdown_timeout=5, logger=quiet_logger(unreadable.inc)
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise InUse(f"api: cannot listen on {host}:{port}: {error.strerror}") from error
        bound = runner.addresses[0]
        yield f"http://{host}:{bound[1]}"
    finally:
        await runner.cleanup()
