"""The HTTP API of a registry: its table of routes."""

import asyncio
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry

from cloud.api.about import Description
from cloud.api.asking import Asking
from cloud.api.document_server import DocumentServer
from cloud.api.routes import Route
from cloud.gateway.gateway import Gateway
from cloud.registry.api.artifacts import ArtifactRoutes
from cloud.registry.api.checked import PATHS
from cloud.registry.api.data_sets import DataSetRoutes
from cloud.registry.api.evaluations import EvaluationRoutes
from cloud.registry.api.metrics import RegistryMetrics
from cloud.registry.api.models import ModelRoutes
from cloud.registry.api.operations import OperationsRoutes
from cloud.registry.api.region import RegionRoutes
from cloud.registry.api.releases import ReleaseRoutes
from cloud.registry.api.settings import RegistryApi
from cloud.registry.api.trust import TrustRoutes
from cloud.registry.api.uploads import UploadRoutes
from cloud.registry.api.versions import VersionRoutes
from cloud.registry.change_counts import ChangeCounts
from cloud.registry.collecting import Collecting
from cloud.registry.registry import Registry
from cloud.registry.released import Released
from cloud.registry.releasing import Releasing

_TITLE: Final = "Hybridge registry"
_ABOUT: Final = (
    "Models, versions, evaluations and releases; artifacts by hash; TUF metadata. Errors are "
    "problem details (RFC 9457)."
)


class RegistryServer(DocumentServer):
    """Needs no running loop until it listens. `counts` takes its metrics."""

    def __init__(
        self,
        registry: Registry,
        collecting: Collecting,
        releasing: Releasing,
        gateway: Gateway | None,
        settings: RegistryApi,
        data_bytes_max: int,
        metrics: RegistryMetrics,
        counts: CollectorRegistry,
    ) -> None:
        def table(asking: Asking, ending: asyncio.Event) -> Iterator[Route]:
            released, changes = Released(registry.catalog), ChangeCounts(registry, metrics)
            yield from ModelRoutes(registry, asking).routes()
            yield from VersionRoutes(registry, asking).routes()
            yield from ReleaseRoutes(releasing, asking).routes()
            yield from EvaluationRoutes(registry).routes()
            yield from DataSetRoutes(registry, asking, data_bytes_max).routes()
            yield from ArtifactRoutes(registry, released, asking, settings, metrics).routes()
            yield from UploadRoutes(registry, settings, metrics).routes()
            yield from TrustRoutes(registry, releasing, asking).routes()
            yield from RegionRoutes(registry, asking, settings, ending).routes()
            yield from OperationsRoutes(registry, asking, collecting, changes, counts).routes()

        super().__init__(
            settings, gateway, table, PATHS, Description(_TITLE, _ABOUT), metrics.requests,
            metrics.unreadable, counts,
        )  # fmt: skip
