"""What is served: server and model metadata, readiness, model configuration, statistics.

Paths and documents of the Open Inference Protocol v2 and of Triton's extensions to it.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Literal

from aiohttp import web
from pydantic import BaseModel

from cloud.api import schemas
from cloud.api.routes import Handler, Route, document, versioned
from cloud.api.statistics import CallStatistics
from cloud.gateway.roles import Role
from cloud.serving.job import Priority
from cloud.serving.pool import ModelPool
from cloud.serving.served import Served
from cloud.serving.settings import Batching
from shared import __version__
from shared.errors import Unavailable, Unknown
from shared.oip.datatypes import Datatype
from shared.oip.signature import TensorSpec, model_metadata, server_metadata

EXTENSIONS = (
    "binary_tensor_data", "model_configuration", "model_repository", "schedule_policy", "statistics",
)  # fmt: skip
_TRITON_TYPES: dict[Datatype, str] = {"BYTES": "TYPE_STRING"}  # the others are TYPE_ and the same
OK, NOT_FOUND, BUSY = HTTPStatus.OK, HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE


class ModelRoutes:
    """`why_not_ready` is the whole server's: None while it can answer."""

    def __init__(
        self,
        pool: ModelPool,
        statistics: CallStatistics,
        batching: Batching,
        why_not_ready: Callable[[], str | None],
    ) -> None:
        self._pool, self._statistics, self._batching = pool, statistics, batching
        self._why_not_ready = why_not_ready

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v2", self._server, "Server metadata", None, {OK: schemas.ServerMetadata}
        )
        yield Route("GET", "/v2/health/live", self._live, "Liveness", None, {OK: schemas.Live})
        yield Route(
            "GET", "/v2/health/ready", self._ready, "Readiness", None,
            {OK: schemas.Ready, BUSY: schemas.Ready},
        )  # fmt: skip
        yield Route(
            "GET", "/v2/models/stats", self._all_statistics, "Statistics of all models",
            Role.READ, {OK: schemas.Statistics},
        )  # fmt: skip
        of_model: dict[str, tuple[Handler, str, type[BaseModel]]] = {
            "": (self._model, "Model metadata", schemas.ModelMetadata),
            "/ready": (self._model_ready, "Model readiness", schemas.ModelReady),
            "/config": (self._config, "Model configuration", schemas.ModelConfig),
            "/stats": (self._model_statistics, "Model statistics", schemas.Statistics),
        }
        for path, (handler, summary, answer) in of_model.items():
            for full in versioned(path):
                yield Route(
                    "GET", full, handler, summary, Role.READ, {OK: answer},
                    problems=(NOT_FOUND, BUSY),
                )  # fmt: skip

    async def _server(self, _: web.Request) -> web.Response:
        return web.json_response(server_metadata("hybridge-cloud", __version__, EXTENSIONS))

    async def _live(self, _: web.Request) -> web.Response:
        return document(schemas.Live(live=True))

    async def _ready(self, _: web.Request) -> web.Response:
        because = self._why_not_ready()
        ready = schemas.Ready(ready=because is None, because=because)
        return document(ready, OK if because is None else BUSY)

    async def _model(self, request: web.Request) -> web.Response:
        served = self._found(request)
        known = replace(served.signature, versions=self._pool.versions(served.name))
        return web.json_response(model_metadata(known))

    async def _model_ready(self, request: web.Request) -> web.Response:
        """Without `find`: whoever only looks, every second perhaps, has nothing loaded or kept."""
        name, version = request.match_info["model"], request.match_info.get("version")
        known = [e for e in self._pool.index() if e.name == name and version in (None, e.version)]
        if not known:
            raise Unknown(f"no model {name[:64]!r} {(version or '')[:32]} here")
        if because := self._why_not_ready():
            raise Unavailable(because)
        if all(entry.state != "READY" for entry in known):
            raise Unavailable(f"{name}: {known[-1].reason or known[-1].state.lower()}")
        return document(schemas.ModelReady(name=name, ready=True))

    async def _config(self, request: web.Request) -> web.Response:
        return document(model_config(self._found(request), self._batching), sparse=True)

    async def _model_statistics(self, request: web.Request) -> web.Response:
        """Of all loaded versions, where none is named."""
        found = self._found(request)
        if "version" in request.match_info:
            return self._told(found)
        return self._told(*(one for one in self._pool.served if one.name == found.name))

    async def _all_statistics(self, _: web.Request) -> web.Response:
        return self._told(*self._pool.served)

    def _told(self, *models: Served) -> web.Response:
        told = (
            self._statistics.of(m.name, m.version, sum(m.batcher.left.values())) for m in models
        )
        return document(schemas.Statistics(model_stats=tuple(told)))

    def _found(self, request: web.Request) -> Served:
        return self._pool.find(request.match_info["model"], request.match_info.get("version"))


def model_config(served: Served, batching: Batching) -> schemas.ModelConfig:
    """As Triton writes it: sizes without the batch axis, which every tensor here has."""
    rules = batching.rules(served.model.size_max)
    return schemas.ModelConfig(
        name=served.name,
        platform=served.signature.platform,
        backend=served.signature.platform,
        max_batch_size=rules.size_max,
        input=tuple(_config_tensor(spec) for spec in served.signature.inputs),
        output=tuple(_config_tensor(spec) for spec in served.signature.outputs),
        dynamic_batching=schemas.DynamicBatching(
            preferred_batch_size=rules.preferred,
            max_queue_delay_microseconds=round(batching.wait_ms_max * 1000),
            priority_levels=len(Priority),
            default_priority_level=Priority.INTERACTIVE,
        ),
        parameters={"version": {"string_value": served.version}},
    )


def _config_tensor(spec: TensorSpec) -> schemas.ConfigTensor:
    kind = _TRITON_TYPES.get(spec.datatype, f"TYPE_{spec.datatype}")
    if len(spec.shape) > 1:
        return schemas.ConfigTensor(name=spec.name, data_type=kind, dims=spec.shape[1:])
    none: dict[Literal["shape"], tuple[int, ...]] = {"shape": ()}
    return schemas.ConfigTensor(name=spec.name, data_type=kind, dims=(1,), reshape=none)
