"""All models of this process: which are loaded, and how another version takes a name over.

Loading happens in a thread while the others serve (`pool_loads.py`). A version is swapped in by one
assignment once it is warm; the one before keeps its queue until it is empty (`retiring.py`).
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cloud.serving.loading import resident_bytes
from cloud.serving.making import maker
from cloud.serving.pool_loads import Loads
from cloud.serving.pool_plan import Key, rising
from cloud.serving.pool_sources import Source, Sources
from cloud.serving.pool_table import PoolTable
from cloud.serving.served import Served
from cloud.serving.settings import Batching, ModelSettings, PoolSettings
from shared.errors import HybridgeError, Malformed, Unavailable, Unknown

_START_S = 3.0  # until the models of the configuration are loaded

State = Literal["READY", "LOADING", "UNAVAILABLE"]


class Loading(Unavailable):
    """A model that is known here and not in memory now; it is being loaded."""


class NotLoaded(Unavailable):
    """A model that is known here and could not be loaded, or was unloaded on request."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One line of the model repository extension's index; `version` is "" for what is no bundle."""

    name: str
    version: str
    state: State
    reason: str


class ModelPool:
    """Belongs to one event loop. `start` it once; `drain`, then `close` it at the end."""

    def __init__(
        self,
        models: Sequence[ModelSettings],
        *,
        pool: PoolSettings,
        batching: Batching,
        cache_dir: Path,
        on_batch: Callable[[int, float], None] = lambda _size, _run_s: None,
        process_bytes: Callable[[], int] = resident_bytes,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_batch(rows, seconds)` is called after each run of any model.

        `process_bytes` says what this process occupies; `now` is the batchers' clock, too.
        """
        make = maker(
            batching,
            cache_dir=cache_dir,
            on_batch=on_batch,
            process_bytes=process_bytes,
            now=now,
        )
        self._settings, self._now = pool, now
        self._sources = Sources(models, pool.folder, pool.bundles_max)
        self._table = PoolTable()
        self._active, self._by_version = self._table.active, self._table.by_version
        self._unloaded: set[Key] = set()  # on request, so no request brings them back
        self._loads = Loads(self._sources, self._table, pool, make, now)
        self._to_start: list[Key] | None = None
        self._closing = False

    async def start(self) -> None:
        """Load every model of the configuration; raises what the first that fails raises."""
        await asyncio.to_thread(self._sources.read)
        for error in self._sources.refused:
            raise error
        configured = [source for source in self._sources.all if source.configured]
        for source in configured:
            versions = [s.key.version for s in configured if s.key.name == source.key.name]
            if len(versions) > self._settings.versions_max:
                raise Malformed(
                    f"models: {len(versions)} versions of {source.key.name}; remove some, or raise "
                    f"pool.versions_max {self._settings.versions_max}"
                )
            self._table.chosen[source.key.name] = rising(versions)[-1]
        self._to_start = [source.key for source in configured]
        for source in configured:
            await asyncio.shield(self._loads.begin(source))
            self._to_start.remove(source.key)
        self._loads.starting = False

    @property
    def ready(self) -> bool:
        """Every model of the configuration has been loaded."""
        return self._to_start == []

    @property
    def why_not_ready(self) -> str | None:
        if self.ready:
            return None
        left = ", ".join(map(str, self._to_start or ()))
        return f"models are loading: {left}" if left else "models are loading"

    @property
    def busy_s(self) -> float:
        """Seconds in which models have run, all together; those that left count, too."""
        here = sum(served.batcher.busy_s for served in self._table.loaded.values())
        return here + self._loads.retiring.busy_s

    @property
    def served(self) -> tuple[Served, ...]:
        """What is loaded; do not keep it."""
        return tuple(self._table.loaded.values())

    def find(self, name: str, version: str | None = None) -> Served:
        """The version that `name` leads to, or that very one, and mark it as used.

        Raises `Unknown`; `Loading` for one that is known and not in memory, which starts to load
        by that; `NotLoaded` when it could not be loaded or was unloaded on request.
        """
        served = (
            self._active.get(name) if version is None else self._by_version.get((name, version))
        )
        if served is None:
            raise self._missing(name, version)
        served.used_at = self._now()
        return served

    def answering(self, edge_model: str) -> Served:
        """The model that takes the escalations of `edge_model`. Raises what `find` raises."""
        served = self._table.answering.get(edge_model)
        if served is None:
            raise self._missing_for(edge_model)
        served.used_at = self._now()
        return served

    def versions(self, name: str) -> tuple[str, ...]:
        """The loaded versions, rising."""
        return self._table.versions(name)

    def index(self) -> tuple[IndexEntry, ...]:
        """Every version that is known, as the model repository extension lists them."""
        known = {source.key for source in self._sources.all} | set(self._table.loaded)
        entries = [self._entry(key) for key in known]
        broken = [
            IndexEntry(name, "", "UNAVAILABLE", why) for name, why in self._sources.broken.items()
        ]
        return tuple(sorted(entries + broken, key=lambda entry: (entry.name, entry.version)))

    async def load(self, name: str, version: str | None = None) -> Served:
        """Load a version, the newest without one, and let `name` lead to it.

        The folder is looked through again first. Returns once new requests go to it. Raises
        `Unknown`, what its bundle is refused for, `TooLarge` or `Overloaded` for want of memory;
        then everything stays as it was.
        """
        if self._closing:
            raise NotLoaded("this worker is shutting down; nothing is loaded any more")
        await asyncio.to_thread(self._sources.read)
        source = self._source(name, version)
        if source is None:
            raise self._unknown(name, version)
        self._unloaded.discard(source.key)
        await asyncio.shield(self._loads.begin(source))
        async with self._loads.turn:
            served = self._table.loaded.get(source.key)
            if served is None:  # unloaded again meanwhile
                raise NotLoaded(f"{source.key} was unloaded while it was loaded")
            self._loads.activate(served)
        return served

    async def unload(self, name: str, version: str | None = None) -> None:
        """Take a version, or all of them, out of memory until `load` brings it back.

        What was accepted is still answered. Raises `Unknown`.
        """
        known = rising({*self._sources.versions(name), *self._table.versions(name)})
        if not known or (version is not None and version not in known):
            raise self._unknown(name, version)
        async with self._loads.turn:
            for each in known if version is None else (version,):
                key = Key(name, each)
                self._unloaded.add(key)
                if key in self._table.loaded:
                    self._loads.retire(key)
            left = self._table.versions(name)
            if left and name not in self._active:
                self._loads.activate(self._by_version[name, left[-1]])

    async def drain(self) -> None:
        """Take no more jobs; returns once everything accepted is answered."""
        self._closing = True
        await self._loads.retiring.finish(hurry=True)
        async with asyncio.TaskGroup() as drains:
            for served in self._table.loaded.values():
                drains.create_task(served.batcher.drain())

    async def close(self) -> None:
        """Drain, end what loads, and close every model."""
        await self.drain()
        await self._loads.finish()
        for key in list(self._table.loaded):
            self._loads.retire(key)
        await self._loads.retiring.finish(hurry=True)

    def _missing(self, name: str, version: str | None) -> HybridgeError:
        """Why it is not there. Has it loaded where that helps."""
        if self._to_start is None:
            return Loading("models are loading", _START_S)
        source = self._source(name, version or self._table.chosen.get(name))
        if source is None:
            return self._unknown(name, version)
        key = source.key
        if key in self._unloaded:
            return NotLoaded(f"{key} was unloaded; load it first")
        if self._closing:
            return NotLoaded(f"{key} is not loaded, and this worker is shutting down")
        if (failure := self._loads.failure(key)) is not None:
            again_s = failure.again_at - self._now()
            if again_s > 0:
                # its reason names files, which is for whoever may read the index
                return NotLoaded(f"{key} could not be loaded; the index says why", again_s)
        self._loads.begin(source)
        return Loading(f"{key} is being loaded", self._loads.takes_s(key))

    def _missing_for(self, edge_model: str) -> HybridgeError:
        for key in self._sources.answering(edge_model):
            if self._table.chosen.get(key.name) in (None, key.version):
                return self._missing(key.name, key.version)
        if self._sources.newest(edge_model) is not None or self._to_start is None:
            return self._missing(edge_model, None)
        there = ", ".join(sorted(self._table.answering)) or "none"
        return Unknown(f"no model here answers for {edge_model[:64]!r}; there are {there}")

    def _unknown(self, name: str, version: str | None) -> Unknown:
        if known := self._sources.versions(name):
            return Unknown(
                f"model {name} has no version {str(version)[:32]!r} here; it has "
                f"{', '.join(known[-8:])}"
            )
        there = ", ".join(self._sources.names[:16]) or "none"
        return Unknown(f"no model {name[:64]!r} here; there are {there}")

    def _source(self, name: str, version: str | None) -> Source | None:
        if version is None:
            return self._sources.newest(name)
        return self._sources.find(Key(name, version))

    def _entry(self, key: Key) -> IndexEntry:
        state: State = "UNAVAILABLE"
        reason = "not loaded"
        if key in self._table.loaded:
            state, reason = "READY", ""
        elif key in self._loads:
            state, reason = "LOADING", ""
        elif key in self._unloaded:
            reason = "unloaded"
        elif failure := self._loads.failure(key):
            reason = failure.reason
        return IndexEntry(key.name, key.version, state, reason)
