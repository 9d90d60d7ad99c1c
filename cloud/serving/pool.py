"""All models of this process: which are loaded, and how another version takes a name over.

Loading happens in a thread while the others serve. A version is swapped in by one assignment once
it is warm; the one before keeps its queue until it is empty (`cloud/serving/retiring.py`). One load
at a time: two would measure each other's memory and time.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cloud.serving.batcher import INLINE_S_MAX, Batcher
from cloud.serving.loading import estimate_bytes, load, resident_bytes
from cloud.serving.pool_plan import Key, rising, room_for, surplus
from cloud.serving.pool_sources import Source, Sources
from cloud.serving.pool_table import PoolTable
from cloud.serving.retiring import Retiring
from cloud.serving.served import Served
from cloud.serving.settings import Batching, ModelSettings, PoolSettings
from shared.errors import HybridgeError, Malformed, Overloaded, Unavailable, Unknown

log = logging.getLogger(__name__)

_LOAD_S = 3.0  # what a first load is expected to take

State = Literal["READY", "LOADING", "UNAVAILABLE"]


class Loading(Unavailable):
    """A model that is known here and not in memory now; it is being loaded."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NotLoaded(Unavailable):
    """A model that is known here and could not be loaded, or was unloaded on request."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One line of the model repository extension's index; `version` is "" for what is no bundle."""

    name: str
    version: str
    state: State
    reason: str


@dataclass(frozen=True, slots=True)
class _Failure:
    reason: str
    at: float


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
        self._settings, self._batching, self._cache_dir = pool, batching, cache_dir
        self._on_batch, self._process_bytes, self._now = on_batch, process_bytes, now
        self._sources = Sources(models, pool.folder, pool.bundles_max)
        self._table = PoolTable()
        self._active, self._by_version = self._table.active, self._table.by_version
        self._chosen: dict[str, str] = {}  # the version that a name leads to, loaded or not
        self._unloaded: set[Key] = set()  # on request, so no request brings them back
        self._failures: dict[Key, _Failure] = {}
        self._took_s: dict[Key, float] = {}
        self._known_bytes: dict[Key, int] = {}  # what it took when it was loaded last
        self._loads: dict[Key, asyncio.Task[Served]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._retiring = Retiring(pool.retire_s_max)
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
            self._chosen[source.key.name] = rising(versions)[-1]
        self._to_start = [source.key for source in configured]
        for source in configured:
            await asyncio.shield(self._loading(source))
            self._to_start.remove(source.key)

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
        await asyncio.to_thread(self._sources.read)
        source = self._source(name, version) if version else self._sources.newest(name)
        if source is None:
            raise self._unknown(name, version)
        self._unloaded.discard(source.key)
        await asyncio.shield(self._loading(source))
        async with self._one_at_a_time:
            served = self._table.loaded.get(source.key)
            if served is None:  # unloaded again meanwhile
                raise NotLoaded(f"{source.key} was unloaded while it was loaded")
            self._activate(served)
        return served

    async def unload(self, name: str, version: str | None = None) -> None:
        """Take a version, or all of them, out of memory until `load` brings it back.

        What was accepted is still answered. Raises `Unknown`.
        """
        known = self._sources.versions(name)
        if not known or (version is not None and version not in known):
            raise self._unknown(name, version)
        async with self._one_at_a_time:
            for each in known if version is None else (version,):
                key = Key(name, each)
                self._unloaded.add(key)
                if key in self._table.loaded:
                    self._retire(key)
            left = self._table.versions(name)
            if left and name not in self._active:
                self._activate(self._by_version[name, left[-1]])

    async def drain(self) -> None:
        """Take no more jobs; returns once everything accepted is answered."""
        self._closing = True
        async with asyncio.TaskGroup() as drains:
            for served in self._table.loaded.values():
                drains.create_task(served.batcher.drain())

    async def close(self) -> None:
        """Drain, end what loads, and close every model."""
        await self.drain()
        if self._loads:
            await asyncio.wait(list(self._loads.values()))
        for key in list(self._table.loaded):
            self._retire(key)
        await self._retiring.finish(hurry=True)

    def _missing(self, name: str, version: str | None) -> HybridgeError:
        """Why it is not there. Has it loaded where that helps."""
        if self._to_start is None:
            return Loading("models are loading", _LOAD_S)
        source = self._source(name, version or self._chosen.get(name))
        if source is None:
            return self._unknown(name, version)
        key = source.key
        if key in self._unloaded:
            return NotLoaded(f"{key} was unloaded; load it first")
        if self._closing:
            return NotLoaded(f"{key} is not loaded, and this worker is shutting down")
        failure = self._failures.get(key)
        if failure is not None and key not in self._loads:
            again_s = failure.at + self._settings.retry_s - self._now()
            if again_s > 0:
                return NotLoaded(f"{key} could not be loaded: {failure.reason}", again_s)
        self._loading(source)
        return Loading(f"{key} is being loaded", self._took_s.get(key, _LOAD_S))

    def _missing_for(self, edge_model: str) -> HybridgeError:
        for source in self._sources.all:
            chosen = self._chosen.get(source.key.name)
            if edge_model in source.manifest.answers_for and chosen in (None, source.key.version):
                return self._missing(source.key.name, source.key.version)
        if self._source(edge_model, None) is not None or self._to_start is None:
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
        elif failure := self._failures.get(key):
            reason = failure.reason
        return IndexEntry(key.name, key.version, state, reason)

    def _loading(self, source: Source) -> "asyncio.Task[Served]":
        """The one load of this version: many may wait for it, so await it shielded."""
        task = self._loads.get(source.key)
        if task is None:
            task = asyncio.get_running_loop().create_task(
                self._load(source), name=f"load {source.key}"
            )
            self._loads[source.key] = task
            task.add_done_callback(lambda done: self._load_ended(source.key, done))
        return task

    def _load_ended(self, key: Key, task: "asyncio.Task[Served]") -> None:
        del self._loads[key]
        if task.cancelled() or (error := task.exception()) is None:
            return
        expected = isinstance(error, HybridgeError)
        reason = str(error) if expected else "a fault of this program; see its log"
        self._failures[key] = _Failure(reason, self._now())
        log.error(
            "model_not_loaded",
            extra={"model": key.name, "version": key.version, "why": reason},
            exc_info=None if expected else error,
        )

    async def _load(self, source: Source) -> Served:
        key = source.key
        async with self._one_at_a_time:
            if (there := self._table.loaded.get(key)) is not None:
                return there
            self._table.refuse_conflict(source.manifest)
            size_max = self._batching.size_max
            await self._make_room(key, self._known_bytes.get(key) or estimate_bytes(
                source.manifest, size_max=size_max, remote=source.settings.triton is not None,
            ))  # fmt: skip
            began = self._now()
            loaded = await asyncio.to_thread(
                load, source, size_max=size_max, cache_dir=self._cache_dir,
                process_bytes=self._process_bytes,
            )  # fmt: skip
            self._took_s[key] = self._now() - began
            self._known_bytes[key] = loaded.memory_bytes
            try:
                await self._make_room(key, loaded.memory_bytes)
            except HybridgeError:
                loaded.model.close()
                raise
            model = loaded.model
            batcher = Batcher(
                model.predict, model.curve, rules=self._batching.rules(model.size_max),
                on_batch=self._on_batch, lanes=model.lanes,
                inline_s_max=-1.0 if model.remote else INLINE_S_MAX, now=self._now,
            )  # fmt: skip
            served = Served(
                model, batcher, memory_bytes=loaded.memory_bytes, pinned=source.settings.pinned
            )
            served.used_at = self._now()
            self._failures.pop(key, None)
            self._table.insert(served)
            if self._chosen.setdefault(key.name, key.version) == key.version:
                self._activate(served)
            return served

    def _activate(self, served: Served) -> None:
        self._table.activate(served)
        self._chosen[served.name] = served.version
        for key in surplus(served.name, self._table.residents(), self._settings.versions_max):
            self._retire(key)

    async def _make_room(self, key: Key, needed_bytes: int) -> None:
        while True:
            try:
                leave = room_for(
                    key, needed_bytes, self._table.residents(),
                    leaving_bytes=self._retiring.memory_bytes,
                    bytes_max=self._settings.memory_bytes_max,
                )  # fmt: skip
            except Overloaded:
                if not self._retiring.memory_bytes:
                    raise
            else:
                if not leave:
                    return
                for gone in leave:
                    log.info("model_makes_room", extra={"model": gone.name, "for": str(key)})
                    self._retire(gone)
            await self._retiring.finish()

    def _retire(self, key: Key) -> None:
        self._retiring.add(self._table.remove(key))
