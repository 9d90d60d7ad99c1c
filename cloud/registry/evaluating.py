"""Evaluators: processes of their own beside the registry's, started, watched, ended by their id."""

import asyncio
import contextlib
import logging
import os
import random
import sys
from asyncio.subprocess import PIPE, Process

from cloud.registry.api.metrics import RegistryMetrics
from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.config import RegistryConfig
from cloud.registry.evaluation.evaluator import run_evaluator
from cloud.registry.settings import Evaluators
from cloud.registry.store.database import RegistryDatabase
from shared.backoff import pause_s

log = logging.getLogger(__name__)

_STEADY_S = 60.0  # one that lived so long did not die of its start


class EvaluatorProcesses:
    """`arguments`: of a child, after `python -m cloud`."""

    def __init__(
        self,
        count: int,
        arguments: tuple[str, ...],
        settings: Evaluators,
        metrics: RegistryMetrics,
    ) -> None:
        self._count, self._arguments = count, arguments
        self._settings, self._metrics = settings, metrics
        self._children: set[Process] = set()
        self._rng = random.Random()  # noqa: S311  spreads restarts
        metrics.evaluators.set_function(lambda: len(self._children))

    @property
    def pids(self) -> list[int]:
        """Of those that run now."""
        return sorted(child.pid for child in self._children)

    async def run(self) -> None:
        """Keep `count` of them running, until it is cancelled; then end them."""
        try:
            async with asyncio.TaskGroup() as places:
                for _ in range(self._count):
                    places.create_task(self._keep_one())
        finally:
            await self._end()

    async def _keep_one(self) -> None:
        loop, deaths = asyncio.get_running_loop(), 0
        while True:
            began = loop.time()
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "cloud", *self._arguments, stdin=PIPE,
                start_new_session=True,
            )  # fmt: skip
            self._children.add(child)
            code = await child.wait()
            self._children.discard(child)
            self._metrics.evaluator_ends.inc()
            deaths = 1 if loop.time() - began > _STEADY_S else deaths + 1
            pause = pause_s(
                deaths, self._settings.backoff_s_min, self._settings.backoff_s_max, self._rng,
                self._settings.backoff_s_min,
            )  # fmt: skip
            log.error("evaluator_died", extra={"code": code, "again_in_s": round(pause, 1)})
            await asyncio.sleep(pause)

    async def _end(self) -> None:
        """Whoever is cancelled here has its children all the same gone at the end."""
        for child in self._children:
            with contextlib.suppress(ProcessLookupError):
                child.terminate()
        try:
            async with asyncio.timeout(self._settings.stop_s_max):
                await asyncio.gather(*(child.wait() for child in self._children))
        except TimeoutError:
            for child in self._children:
                with contextlib.suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
        self._children.clear()


class EvaluatorChild:
    """One evaluator: this whole process. It ends with its parent, however that one ends."""

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._stop = asyncio.Event()

    @property
    def stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        self._stop.set()

    def read_again(self) -> None:
        """It holds no files that change."""

    async def run(self) -> bool:
        """Until told to end. Raises `Unavailable` where the catalog or the artifacts are away."""
        config = self._config
        os.nice(config.evaluation.nice)
        orphaned = asyncio.create_task(self._stop_when_orphaned())
        database = RegistryDatabase(config.catalog_url)
        try:
            await asyncio.to_thread(database.open)
            catalog = Catalog(database, config.catalog)
            artifacts = Artifacts(config.artifacts, config.state_dir)
            await run_evaluator(catalog, artifacts, config.evaluation, self._stop)
            return True
        finally:
            orphaned.cancel()
            database.close()

    async def _stop_when_orphaned(self) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        await reader.read()  # nothing is ever written: this is the end of the parent
        self.stop()
