"""For operators: status, metrics, and what the whole API is."""

from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus

from aiohttp import web

from cloud.api import about, schemas
from cloud.api.routes import Route, document
from cloud.experiments.report import Reports
from cloud.gateway.roles import Role

_OK = HTTPStatus.OK
_TITLE = "Hybridge cloud worker"
_ABOUT = (
    "Open Inference Protocol v2 with Triton's extensions, and operations. "
    "Errors are problem details (RFC 9457)."
)


class OperationsRoutes:
    def __init__(
        self,
        status: Callable[[], Awaitable[schemas.Status]],
        metrics: Callable[[], Awaitable[bytes]],
        experiments: Callable[[], Awaitable[Reports]],
    ) -> None:
        """`metrics`: Prometheus text."""
        self._status, self._metrics, self._experiments = status, metrics, experiments
        self.description = about.Description(_TITLE, _ABOUT)

    def routes(self) -> Iterator[Route]:
        yield Route(
            "GET", "/v1/status", self._state, "State of this worker", Role.OBSERVE,
            {_OK: schemas.Status},
        )  # fmt: skip
        yield Route(
            "GET", "/v1/experiments", self._arms, "Versions side by side", Role.OBSERVE,
            {_OK: Reports},
        )  # fmt: skip
        yield about.metrics(self._metrics, Role.OBSERVE)
        yield self.description.route()

    async def _state(self, _: web.Request) -> web.Response:
        return document(await self._status())

    async def _arms(self, _: web.Request) -> web.Response:
        return document(await self._experiments())
