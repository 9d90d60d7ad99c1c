"""One registry: its catalog, artifacts, trust and API, in one TaskGroup.

A part that dies takes the process down; its supervisor starts it again. When its role among the
regions changes (a promotion, a newer home) all of it is built anew behind the same port.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry

from cloud.gateway.counts import GatewayCounts
from cloud.gateway.gateway import Gateway
from cloud.registry.api.app import RegistryServer
from cloud.registry.api.metrics import RegistryMetrics
from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.collecting import Collecting
from cloud.registry.config import RegistryConfig
from cloud.registry.delta_publishing import DeltaPublishing
from cloud.registry.evaluating import EvaluatorProcesses
from cloud.registry.registry import Registry
from cloud.registry.releasing import Releasing
from cloud.registry.replication.replication import Replication
from cloud.registry.store.database import RegistryDatabase
from cloud.registry.trust.keys import load_signers, read_password
from cloud.registry.trust.repository import Repository
from cloud.registry.trust_upkeep import TrustUpkeep
from shared.errors import HybridgeError, Unavailable

log = logging.getLogger(__name__)

_LOOK_S = 1.0


class RegistryService:
    """`run` once. `ready` is called with the API's URL when it can answer."""

    def __init__(
        self,
        config: RegistryConfig,
        child_arguments: tuple[str, ...],
        ready: Callable[[str], None],
        alone: bool = False,
        now: Callable[[], float] = time.time,
    ) -> None:
        """`child_arguments`: of an evaluator, after `python -m cloud`; `alone`: be home although no
        peer answers; `now` gives Unix seconds.
        """
        self._config, self._child_arguments = config, child_arguments
        self._announce, self._alone, self._now = ready, alone, now
        self._stop = asyncio.Event()
        self._gateway: Gateway | None = None

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        """Take nothing new; `run` returns once everything accepted is answered."""
        self._stop.set()

    def read_again(self) -> None:
        """The keys of callers."""
        if self._gateway is not None:
            self._gateway.read_again()

    async def run(self) -> bool:
        """Serve until `stop`; whether everything ended within `drain_s`.

        Raises `Refused` or `Unavailable` when it cannot start, or a group of what a part died of.
        """
        state_dir = self._config.state_dir
        try:
            state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(f"state_dir {state_dir}: {error.strerror}") from error
        drained = True
        while not self._stop.is_set():
            drained = await self._live()
        return drained

    async def _live(self) -> bool:
        """One role's time."""
        config = self._config
        async with self._catalog() as catalog:
            artifacts = Artifacts(config.artifacts, config.state_dir)
            await artifacts.check()
            password = read_password(config.trust.password_file, os.environ)
            folder = config.trust.online_keys
            # a replica's folder is filled when it is promoted
            signers = {} if folder is None or not any(folder.glob("*.pem")) else await asyncio.to_thread(
                load_signers, folder, password
            )  # fmt: skip
            trust = Repository(
                config.trust, catalog, artifacts, config.state_dir / "trust", signers
            )
            replication = Replication(
                name=config.name, home=config.home, peers=config.peers,
                state_dir=config.state_dir, catalog=catalog, artifacts=artifacts,
                sign=trust.sign_head, alone=self._alone,
            )  # fmt: skip
            registry = Registry(config.name, catalog, artifacts, replication, self._now)
            await _read_root(trust, replication)
            await replication.start()
            return await self._serve(registry, Releasing(registry, trust))

    async def _serve(self, registry: Registry, releasing: Releasing) -> bool:
        config, counts = self._config, CollectorRegistry()
        metrics = RegistryMetrics(counts)
        gateway = self._gateway = Gateway(config.gateway, GatewayCounts(counts))
        collecting = Collecting(registry, config.upkeep, metrics)
        server = RegistryServer(
            registry, collecting, releasing, gateway, config.api,
            config.evaluation.data_bytes_max, metrics, counts,
        )  # fmt: skip
        keep_trust = TrustUpkeep(registry, releasing, config.upkeep, metrics)
        replication = registry.replication
        async with server.listening() as url, asyncio.TaskGroup() as parts:
            running = [
                parts.create_task(gateway.run(), name="gateway"),
                parts.create_task(collecting.run(), name="collecting"),
                parts.create_task(keep_trust.run(), name="trust"),
            ]
            if replication.role == "home":
                running += [
                    parts.create_task(self._evaluate(replication, metrics), name="evaluators"),
                    parts.create_task(
                        DeltaPublishing(
                            registry, config.deltas, releasing.released, metrics
                        ).run(),
                        name="deltas",
                    ),
                ]  # fmt: skip
            region = parts.create_task(replication.run(), name="region")
            self._say_ready(url)
            await self._stop_or(replication.role_changed)
            log.info("draining", extra={"role_changed": replication.role_changed.is_set()})
            replication.drain()
            for part in running:
                part.cancel()
            return await self._drained(server, [*running, region])

    async def _drained(
        self, server: RegistryServer, parts: "list[asyncio.Task[None]]"
    ) -> bool:  # fmt: skip
        server.begin_end()
        try:
            async with asyncio.timeout(self._config.drain_s):
                await asyncio.wait(parts)
                await server.until_quiet()
        except TimeoutError:
            log.error("drain_cut")  # noqa: TRY400  no trace to show
            return False
        return True

    async def _evaluate(self, replication: Replication, metrics: RegistryMetrics) -> None:
        """Evaluators write into the catalog by themselves, so not before this is surely home."""
        while not replication.is_home:  # noqa: ASYNC110  unsure for a start at most
            await asyncio.sleep(_LOOK_S)
        config = self._config
        await EvaluatorProcesses(
            config.evaluation.processes, self._child_arguments, config.evaluators, metrics
        ).run()

    def _say_ready(self, url: str) -> None:
        """Once; the port stays the same when the role changes."""
        if self._config.api.port == 0:
            port = urlsplit(url).port
            api = self._config.api.model_copy(update={"port": port})
            self._config = self._config.model_copy(update={"api": api})
        log.info("listening", extra={"url": url})
        self._announce(url)
        self._announce = _nobody

    async def _stop_or(self, changed: asyncio.Event) -> None:
        waits = [asyncio.create_task(self._stop.wait()), asyncio.create_task(changed.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    @contextlib.asynccontextmanager
    async def _catalog(self) -> AsyncIterator[Catalog]:
        database = RegistryDatabase(self._config.catalog_url)
        try:
            await asyncio.to_thread(database.open)
            yield Catalog(database, self._config.catalog)
        finally:
            await asyncio.to_thread(database.close)


async def _read_root(trust: Repository, replication: Replication) -> None:
    """A replica that lost the root's file gets it from its home, so it must start without."""
    try:
        await trust.start()
    except HybridgeError as error:
        if replication.role == "home":
            raise
        log.error("root_not_read", extra={"why": str(error)})  # noqa: TRY400  words suffice


def _nobody(_: str) -> None:
    """Whoever started this has been told."""
