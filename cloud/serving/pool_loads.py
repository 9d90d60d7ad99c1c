"""Loading in the background: one at a time, each version once, within the memory there is.

One at a time because two would measure each other's memory and time.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from cloud.serving.making import Make
from cloud.serving.pool_plan import Key, room_for, surplus
from cloud.serving.pool_sources import Source, Sources
from cloud.serving.pool_table import PoolTable
from cloud.serving.retiring import Retiring
from cloud.serving.served import Served
from cloud.serving.settings import PoolSettings
from cloud.serving.split import check_fits
from shared.bundle.manifest import Manifest
from shared.errors import HybridgeError, Overloaded, Unknown

log = logging.getLogger(__name__)

_LOAD_S = 3.0  # what a first load is expected to take
_BUSY_S = 1.0  # models that have work in hand now are soon done with it


@dataclass(frozen=True, slots=True)
class Failure:
    reason: str
    again_at: float  # by the pool's clock: no request starts another load before


class Loads:
    def __init__(
        self,
        sources: Sources,
        table: PoolTable,
        settings: PoolSettings,
        make: Make,
        now: Callable[[], float],
    ) -> None:
        self._sources, self._table, self._settings = sources, table, settings
        self._make, self._now = make, now
        self.starting = True
        """Whoever starts the pool is told by what it raises; later only the log tells."""
        self._under_way: dict[Key, asyncio.Task[Served]] = {}
        self._failures: dict[Key, Failure] = {}
        self._took_s: dict[Key, float] = {}
        self._known_bytes: dict[Key, int] = {}  # what it took when it was loaded last
        self.retiring = Retiring(settings.retire_s_max)
        self.turn = asyncio.Lock()
        """Held by whoever changes what is loaded."""

    def __contains__(self, key: Key) -> bool:
        return key in self._under_way

    def failure(self, key: Key) -> Failure | None:
        """Of its last load, until one has gone well."""
        return None if key in self._under_way else self._failures.get(key)

    def takes_s(self, key: Key) -> float:
        """What a load of it is expected to take."""
        return self._took_s.get(key, _LOAD_S)

    def begin(self, source: Source) -> "asyncio.Task[Served]":
        """The one load of this version: many may wait for it, so await it shielded."""
        task = self._under_way.get(source.key)
        if task is None:
            task = asyncio.get_running_loop().create_task(
                self._load(source), name=f"load {source.key}"
            )
            self._under_way[source.key] = task
            task.add_done_callback(lambda done: self._ended(source.key, done))
        return task

    async def finish(self) -> None:
        """Wait for the loads under way, however they end: a thread cannot be stopped."""
        while self._under_way:
            await asyncio.wait(list(self._under_way.values()))

    def activate(self, served: Served) -> None:
        """Let its name lead to it, and what is one version too many leave."""
        self._table.activate(served)
        for key in surplus(served.name, self._table.residents(), self._settings.versions_max):
            self.retire(key)

    def retire(self, key: Key) -> None:
        self.retiring.add(self._table.remove(key))

    async def _load(self, source: Source) -> Served:
        key = source.key
        backbone = await self._backbone_of(source.manifest)
        async with self.turn:
            if (there := self._table.loaded.get(key)) is not None:
                return there
            self._table.refuse_conflict(source.manifest)
            await self._make_room(
                key, self._known_bytes.get(key, self._make.estimate_bytes(source))
            )
            began = self._now()
            loaded = await asyncio.to_thread(self._make.load, source, backbone)
            self._took_s[key] = self._now() - began
            self._known_bytes[key] = loaded.memory_bytes
            try:
                await self._make_room(key, loaded.memory_bytes)
            except HybridgeError:
                loaded.model.close()
                raise
            served = self._make.serve(source, loaded)
            self._failures.pop(key, None)
            self._table.insert(served)
            if self._table.chosen.setdefault(key.name, key.version) == key.version:
                self.activate(served)
            return served

    async def _backbone_of(self, head: Manifest) -> Manifest | None:
        """Load it first: a head without it answers nothing. Raises `Unknown` or `Malformed`."""
        if head.backbone is None:
            return None
        key = Key(head.backbone.name, head.backbone.version)
        source = self._sources.find(key)
        if source is None:
            raise Unknown(f"{head.name} {head.version} needs {key}; add its bundle to this worker")
        check_fits(head, source.manifest)
        if key not in self._table.loaded:
            await asyncio.shield(self.begin(source))
        return source.manifest

    async def _make_room(self, key: Key, needed_bytes: int) -> None:
        while True:
            try:
                leave = room_for(
                    key,
                    needed_bytes,
                    self._table.residents(),
                    leaving_bytes=self.retiring.memory_bytes,
                    bytes_max=self._settings.memory_bytes_max,
                )
            except Overloaded:
                if not self.retiring.memory_bytes:
                    raise
            else:
                if not leave:
                    return
                for gone in leave:
                    log.info("model_makes_room", extra={"model": gone.name, "for": str(key)})
                    self.retire(gone)
            await self.retiring.finish()

    def _ended(self, key: Key, task: "asyncio.Task[Served]") -> None:
        del self._under_way[key]
        if task.cancelled() or (error := task.exception()) is None:
            return
        expected = isinstance(error, HybridgeError)
        reason = str(error) if expected else "a fault of this program; see its log"
        retry_s = self._settings.retry_s
        if isinstance(error, Overloaded):  # there will be room once work is done
            retry_s = min(retry_s, _BUSY_S)
        self._failures[key] = Failure(reason, self._now() + retry_s)
        if self.starting:
            return
        log.error(
            "model_not_loaded",
            extra={"model": key.name, "version": key.version, "why": reason},
            exc_info=None if expected else error,
        )
