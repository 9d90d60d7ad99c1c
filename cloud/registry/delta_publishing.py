"""After each release: shorter ways to it from the releases that devices are on."""

import asyncio
import logging

from cloud.registry.api.metrics import RegistryMetrics
from cloud.registry.catalog.commands import AddDelta
from cloud.registry.deltas.maker import DeltaMaker
from cloud.registry.deltas.pairs import pairs
from cloud.registry.deltas.settings import DeltaSettings
from cloud.registry.documents import Model, State
from cloud.registry.registry import Registry
from cloud.registry.releasing import OWN
from shared.errors import ReadOnly, Refused, Unavailable

log = logging.getLogger(__name__)

_AGAIN_S = 60.0  # after a store that was away
_REMEMBERED_MAX = 10_000


class DeltaPublishing:
    """`released` is set when there may be something to do; at the start there may."""

    def __init__(
        self,
        registry: Registry,
        settings: DeltaSettings,
        released: asyncio.Event,
        metrics: RegistryMetrics,
    ) -> None:
        self._registry, self._settings, self._released = registry, settings, released
        self._metrics = metrics
        self._maker = DeltaMaker(registry.artifacts, settings)
        self._not_worth_it: dict[tuple[str, str], None] = {}

    async def run(self) -> None:
        """Until it is cancelled. What a kill left undone is made after the next start."""
        while True:
            self._released.clear()
            whole = await self._make_all()
            try:
                async with asyncio.timeout(None if whole else _AGAIN_S):
                    await self._released.wait()
            except TimeoutError:
                continue

    async def _make_all(self) -> bool:
        """Whether nothing was away."""
        try:
            self._registry.replication.check_writable()
            for model in await self._registry.read(self._registry.catalog.models):
                if model.current is not None:
                    await self._make(model, model.current)
        except ReadOnly:
            return True  # the home makes them
        except Unavailable as error:
            log.warning("deltas_put_off", extra={"why": str(error)})
            return False
        return True

    async def _make(self, model: Model, current: str) -> None:
        catalog = self._registry.catalog
        versions = await self._registry.read(catalog.versions, model.name)
        released = [one for one in versions if one.state is State.RELEASED]
        new = next(one for one in versions if one.version == current)
        for pair in pairs(new, released, self._settings):
            if pair in self._not_worth_it or await self._is_there(*pair):
                continue
            try:
                await self._make_one(*pair)
            except Refused as error:  # one that cannot be made costs only the shorter way
                log.warning("delta_not_made", extra={"model": model.name, "why": str(error)})
                self._forgo(pair)

    async def _make_one(self, from_sha256: str, to_sha256: str) -> None:
        delta = await self._maker.make(from_sha256, to_sha256)
        if delta is None:
            self._metrics.deltas_not_worth_it.inc()
            self._forgo((from_sha256, to_sha256))
            return
        await self._registry.apply(AddDelta(delta), actor=OWN)
        self._metrics.deltas.inc()
        log.info("delta_added", extra={"to": to_sha256[:16], "bytes": delta.bytes})

    async def _is_there(self, from_sha256: str, to_sha256: str) -> bool:
        known = await self._registry.read(self._registry.catalog.deltas_to, to_sha256)
        return any(one.from_sha256 == from_sha256 for one in known)

    def _forgo(self, pair: tuple[str, str]) -> None:
        if len(self._not_worth_it) >= _REMEMBERED_MAX:
            del self._not_worth_it[next(iter(self._not_worth_it))]
        self._not_worth_it[pair] = None
