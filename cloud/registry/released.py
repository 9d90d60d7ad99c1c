"""Which artifacts a device may see: those of releases, the deltas to them, and trust metadata."""

import asyncio
from collections.abc import Iterable

from cloud.registry.catalog import changes
from cloud.registry.catalog.catalog import Catalog
from cloud.registry.documents import Delta, Entry, State

_ENTRIES = 1000


class Released:
    """As the catalog stands at each question: read from its tables once, then followed by its log."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._seq: int | None = None  # of the last entry that was looked at
        self._of_model: dict[str, frozenset[str]] = {}
        self._leads_to: dict[str, set[str]] = {}  # a delta -> the files that it makes
        self._trust: set[str] = set()
        self._one = asyncio.Lock()

    async def has(self, sha256: str) -> bool:
        """Raises `Unavailable`."""
        head = await asyncio.to_thread(self._catalog.head)
        if self._seq is None or head.seq > self._seq:
            async with self._one:
                await asyncio.to_thread(self._catch_up)
        if self._is_released(sha256) or sha256 in self._trust:
            return True
        return any(self._is_released(file) for file in self._leads_to.get(sha256, ()))

    def _is_released(self, sha256: str) -> bool:
        return any(sha256 in files for files in self._of_model.values())

    def _catch_up(self) -> None:
        if self._seq is None:
            seq = (
                self._catalog.head().seq
            )  # before the tables: what comes meanwhile is looked at twice
            for model in self._catalog.models():
                self._look_at(model.name)
            self._trust = {one.file.sha256 for one in self._catalog.trust_files()}
            self._seq = seq
        while entries := self._catalog.log(self._seq, _ENTRIES):
            for name in self._note(entries):
                self._look_at(name)
            self._seq = entries[-1].seq

    def _note(self, entries: Iterable[Entry]) -> set[str]:
        """The models whose releases changed."""
        changed = set[str]()
        for entry in entries:
            match changes.change_of(entry):
                case changes.Released() | changes.Retired() | changes.Deleted() as change:
                    changed.add(change.model)
                case changes.DeltaAdded(delta=delta):
                    self._note_delta(delta)
                case changes.TrustPublished(file=file):
                    self._trust.add(file.sha256)
                case _:
                    pass
        return changed

    def _look_at(self, model: str) -> None:
        files = set[str]()
        for version in self._catalog.versions(model):
            if version.state is State.RELEASED:
                files |= {version.manifest.sha256, *(file.sha256 for file in version.files)}
        for file in files:
            for delta in self._catalog.deltas_to(file):
                self._note_delta(delta)
        self._of_model[model] = frozenset(files)

    def _note_delta(self, delta: Delta) -> None:
        self._leads_to.setdefault(delta.sha256, set()).add(delta.to_sha256)
