"""The HTTP API of a fleet: its table of routes."""

import asyncio
import ssl
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry

from cloud.api.about import Description
from cloud.api.asking import Asking
from cloud.api.document_server import DocumentServer
from cloud.api.routes import Route
from cloud.fleet.api.checked import PATHS
from cloud.fleet.api.devices import DeviceRoutes
from cloud.fleet.api.drift import DriftRoutes
from cloud.fleet.api.enrolment import EnrolmentRoutes
from cloud.fleet.api.groups import GroupRoutes
from cloud.fleet.api.operations import OperationsRoutes
from cloud.fleet.api.rollouts import RolloutRoutes
from cloud.fleet.api.settings import FleetApi
from cloud.fleet.api.tls import server_context
from cloud.fleet.certifying import Certifying
from cloud.fleet.control import Control
from cloud.fleet.metrics import FleetMetrics
from cloud.gateway.gateway import Gateway

_TITLE: Final = "Hybridge fleet"
_ABOUT: Final = (
    "Devices, groups, profiles, enrolment, rollouts and drift of one region. Errors are problem details "
    "(RFC 9457)."
)


class FleetServer(DocumentServer):
    """Needs no running loop until it listens. `counts` takes its metrics."""

    def __init__(
        self,
        control: Control,
        certifying: Certifying | None,
        gateway: Gateway | None,
        settings: FleetApi,
        metrics: FleetMetrics,
        counts: CollectorRegistry,
    ) -> None:
        def table(asking: Asking, ending: asyncio.Event) -> Iterator[Route]:
            yield from DeviceRoutes(control, asking, settings).routes()
            yield from EnrolmentRoutes(control, certifying, asking, settings, metrics).routes()
            yield from GroupRoutes(control, asking).routes()
            yield from RolloutRoutes(control, asking, settings, ending).routes()
            yield from DriftRoutes(control.drifting, asking, settings).routes()
            yield from OperationsRoutes(control, settings, ending, metrics, counts).routes()

        super().__init__(
            settings, gateway, table, PATHS, Description(_TITLE, _ABOUT), metrics.requests,
            metrics.unreadable, counts,
        )  # fmt: skip
        self._files = settings.tls_cert, settings.tls_key, settings.devices_ca

    async def _tls(self) -> ssl.SSLContext | None:
        """Raises `Malformed` for files that do not fit."""
        cert, key, devices_ca = self._files
        if cert is None or key is None:
            return None
        return await asyncio.to_thread(server_context, cert, key, devices_ca)
