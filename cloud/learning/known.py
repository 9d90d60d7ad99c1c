"""What bundles and the fleet tell the feedback store: dictionaries of payloads, sites of devices."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from cloud.learning.models import Models
from cloud.learning.neighbours import fleet_at, registry_at
from cloud.learning.settings import LearningFleet, LearningRegistry
from cloud.learning.store.loops import LoopStore
from cloud.registry.documents import State
from shared.errors import HybridgeError, Refused

log = logging.getLogger(__name__)
_LOOK_S: Final = 15.0
_VERSIONS_MAX: Final = 8
"""Released versions of a model whose payloads are read, the newest."""
_DICTIONARIES_MAX: Final = 256


class KnownDictionaries:
    """Of the trusted folders, and of what the registry has released of the loops' models."""

    def __init__(
        self,
        models: Models,
        registry: LearningRegistry | None,
        store: LoopStore,
        named: Sequence[str],
    ) -> None:
        """`named`: edge models beside those that have a loop."""
        self._models, self._registry, self._store, self._named = models, registry, store, named
        self._found: dict[bytes, None] = {}
        self._seen: set[tuple[str, str]] = set()
        self._left_out = set[str]()
        """Bundles whose dictionary was one too many; each is said once."""

    def dictionaries(self) -> tuple[bytes, ...]:
        """Whole ones; called from any thread."""
        return tuple(self._found)

    async def look(self) -> None:
        """Once. A model that is away is asked again with the next look."""
        for bundle in await asyncio.to_thread(self._models.in_folders):
            manifest = bundle.manifest
            self._take(bundle.dictionary, f"{manifest.name} {manifest.version}")
        loops = await asyncio.to_thread(self._store.loops)
        for model in sorted({*self._named, *(one.settings.model for one in loops)}):
            try:
                await self._look_at(model)
            except HybridgeError as error:
                log.warning("dictionary_unread", extra={"model": model, "why": str(error)[:300]})

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except HybridgeError as error:
                log.warning("dictionaries_blind", extra={"why": str(error)[:300]})
            await asyncio.sleep(_LOOK_S)

    async def _look_at(self, model: str) -> None:
        if self._registry is None or self._registry.root is None:
            return
        async with registry_at(self._registry) as registry:
            versions = [
                one for one in await registry.versions(model) if one.state is State.RELEASED
            ]
        versions.sort(key=lambda one: max((launch.number for launch in one.launches), default=0))
        for one in versions[-_VERSIONS_MAX:]:
            if (model, one.version) not in self._seen:
                bundle = await self._models.bundle(model, one.version)
                self._take(bundle.dictionary, f"{model} {one.version}")
                self._seen.add((model, one.version))

    def _take(self, dictionary: bytes, where: str) -> None:
        if not dictionary or dictionary in self._found:
            return
        if len(self._found) < _DICTIONARIES_MAX:
            self._found = {**self._found, dictionary: None}  # others read while this is written
        elif where not in self._left_out and len(self._left_out) < _DICTIONARIES_MAX:
            self._left_out.add(where)
            log.error("dictionary_left_out", extra={
                "bundle": where, "kept": _DICTIONARIES_MAX,
                "why": "its payloads stay unread (no_dictionary): take bundles that nobody has any "
                "more out of the folders, and start again",
            })  # fmt: skip


class FleetGroups:
    """Which devices a group has now."""

    def __init__(self, settings: LearningFleet | None) -> None:
        self._settings = settings

    async def devices(self, group: str) -> tuple[str, ...]:
        """By name, in order. Raises `Refused` without a fleet, `Unavailable`."""
        if self._settings is None:
            raise Refused(f"group {group}: there is no [fleet] to ask for its devices")
        async with fleet_at(self._settings) as fleet:
            found = await fleet.devices()
        return tuple(sorted(one.id for one in found if one.group == group))


class FleetSites:
    """The label `site` of each device."""

    def __init__(self, settings: LearningFleet | None) -> None:
        self._settings = settings

    async def sites(self) -> Mapping[str, str]:
        """By device. Raises `Unavailable`."""
        if self._settings is None:
            return {}
        async with fleet_at(self._settings) as fleet:
            devices = await fleet.devices("site")
        return {one.id: one.labels["site"] for one in devices if "site" in one.labels}
