"""Bundles that this process reads: thresholds, dictionaries of payloads, graphs to check with."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from cloud.learning.settings import LearningRegistry
from cloud.training.worker.bundles import BundleShelf
from cloud.training.worker.settings import WorkerRegistry
from shared.bundle.reader import Bundle, open_bundle
from shared.errors import HybridgeError


class Models:
    """From folders that are trusted, or the registry's releases by its root of trust."""

    def __init__(
        self, folders: Sequence[Path], registry: LearningRegistry | None, state_dir: Path
    ) -> None:
        """Raises `Malformed` where the root of trust cannot be read."""
        asked = None
        if registry is not None and registry.root is not None:
            asked = WorkerRegistry.model_validate({
                name: getattr(registry, name) for name in WorkerRegistry.model_fields
                if hasattr(registry, name)
            })  # fmt: skip
        self._folders = tuple(folders)
        self._shelf = BundleShelf(folders, asked, state_dir)
        self._known: dict[tuple[str, str], Bundle] = {}

    async def bundle(self, model: str, version: str) -> Bundle:
        """That very version. Raises `Unknown`, `NotTrusted`, `Unavailable`."""
        if (found := self._known.get((model, version))) is None:
            path = await self._shelf.bring(f"{model}@{version}")
            found = await asyncio.to_thread(open_bundle, path)
            if len(self._known) >= 16:  # versions come and go; each holds its golden samples
                self._known.pop(next(iter(self._known)))
            self._known[model, version] = found
        return found

    def in_folders(self) -> list[Bundle]:
        """Blocking. What the trusted folders hold; what is no bundle is left out."""
        found = []
        for folder in self._folders:
            for path in (folder, *sorted(folder.glob("*"))):
                if path.suffix == ".hyb" or (path / "manifest.json").is_file():
                    try:
                        found.append(open_bundle(path, hashes_graphs=False))
                    except HybridgeError:
                        continue
        return found
