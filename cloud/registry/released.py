"""Which artifacts a device may see: those of releases, the deltas to them, and trust metadata."""

import asyncio

from cloud.registry.catalog.catalog import Catalog
from cloud.registry.documents import State


class Released:
    """Looked up anew when the log has grown in a way that matters, so a release is seen at once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._seq = -1
        self._of_model: dict[str, frozenset[str]] = {}
        self._others: frozenset[str] = frozenset()
        self._one = asyncio.Lock()

    async def has(self, sha256: str) -> bool:
        """Raises `Unavailable`."""
        head = await asyncio.to_thread(self._catalog.head)
        if head.seq != self._seq:
            async with self._one:
                await asyncio.to_thread(self._catch_up)
        return any(sha256 in of_one for of_one in self._of_model.values())

    def _catch_up(self) -> None:
        seq = self._catalog.head().seq
        for model in self._catalog.models():
            self._of_model[model.name] = self._released(model.name)
        self._seq = seq

    def _released(self, model: str) -> frozenset[str]:
        found = set[str]()
        for version in self._catalog.versions(model):
            if version.state is State.RELEASED:
                found.add(version.manifest.sha256)
                found |= {file.sha256 for file in version.files}
        for sha256 in tuple(found):
            found |= {delta.sha256 for delta in self._catalog.deltas_to(sha256)}
        return frozenset(found)
