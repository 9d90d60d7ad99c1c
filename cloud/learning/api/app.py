"""The HTTP API of the learning process: its table of routes."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry

from cloud.api.about import Description
from cloud.api.asking import Asking, actor_of
from cloud.api.document_server import DocumentServer
from cloud.api.routes import Route
from cloud.feedback.api.data_sets import DataSetRoutes
from cloud.feedback.api.feedback import FeedbackRoutes
from cloud.gateway.gateway import Gateway
from cloud.learning.api.checked import PATHS
from cloud.learning.api.checks import CheckRoutes
from cloud.learning.api.loops import LoopRoutes
from cloud.learning.api.operations import OperationsRoutes
from cloud.learning.api.settings import LearningApi
from cloud.learning.loop.actor import check_is_another
from cloud.learning.parts import Parts
from cloud.learning.web.page import PageRoutes
from cloud.training.api.routes import TrainingRoutes

_TITLE: Final = "Hybridge learning"
_ABOUT: Final = (
    "Feedback samples and their labels, data sets, training jobs and loops of one region. Errors are "
    "problem details (RFC 9457)."
)


class LearningServer(DocumentServer):
    """Needs no running loop until it listens. `counts` takes its metrics."""

    def __init__(
        self, parts: Parts, gateway: Gateway | None, settings: LearningApi,
        counts: CollectorRegistry,
    ) -> None:  # fmt: skip
        def table(asking: Asking, ending: asyncio.Event) -> Iterator[Route]:
            yield from map(_of_others, all_of_them(asking, ending))

        def all_of_them(asking: Asking, ending: asyncio.Event) -> Iterator[Route]:
            yield from FeedbackRoutes(parts.feedback, asking, parts.now).routes()
            yield from DataSetRoutes(
                parts.feedback, asking, parts.now, parts.data_set_reader
            ).routes()
            yield from TrainingRoutes(
                parts.queue, parts.tracking, parts.blobs, asking, ending
            ).routes()
            yield from LoopRoutes(parts.desk, parts.refitting, asking, settings, ending).routes()
            yield from CheckRoutes(parts.checking).routes()
            yield from OperationsRoutes(parts, counts).routes()
            yield from PageRoutes().routes()

        metrics = parts.metrics
        super().__init__(
            settings, gateway, table, PATHS, Description(_TITLE, _ABOUT), metrics.requests,
            metrics.unreadable, counts,
        )  # fmt: skip


def _of_others(route: Route) -> Route:
    """For every caller but one who has the loop's own name."""
    if route.method == "GET":
        return route
    inner = route.handler

    async def handler(request: web.Request) -> web.StreamResponse:
        check_is_another(actor_of(request))
        return await inner(request)

    return replace(route, handler=handler)
