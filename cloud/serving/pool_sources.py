"""Where models may be loaded from: the bundles of the configuration, and those of a folder."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cloud.serving.pool_plan import Key, rising
from cloud.serving.settings import ModelSettings
from shared.bundle.archive import read_archive
from shared.bundle.files import MANIFEST, Files, FolderFiles, MemberFiles
from shared.bundle.manifest import Manifest
from shared.bundle.reader import parse_manifest
from shared.errors import Malformed, Refused, TooLarge

Stamp = tuple[int, int, int]
_MANIFEST_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Source:
    """A bundle by what its manifest says; nothing else of it has been checked before it loads."""

    manifest: Manifest
    settings: ModelSettings
    configured: bool

    @property
    def key(self) -> Key:
        return Key(self.manifest.name, self.manifest.version)


class Sources:
    """`read` reads files; the rest only looks up what it found."""

    def __init__(
        self, models: Sequence[ModelSettings], folder: Path | None, bundles_max: int
    ) -> None:
        self._models, self._folder, self._bundles_max = models, folder, bundles_max
        self._found: dict[Key, Source] = {}
        self._versions: dict[str, tuple[str, ...]] = {}
        self._answering: dict[str, list[Key]] = {}
        self._manifests: dict[Path, tuple[Stamp, Manifest]] = {}
        self.refused: list[Refused] = []
        """What is wrong with bundles of the configuration."""
        self.broken: dict[str, str] = {}
        """Why a bundle cannot be loaded, by the name of its folder or file."""

    def read(self) -> None:
        """Read all manifests anew, those of files that changed. May take seconds: in a thread.

        A bundle that cannot be read is kept in `broken`. Raises `Malformed` or `TooLarge` for a
        folder that cannot be used.
        """
        found: dict[Key, Source] = {}
        broken: dict[str, str] = {}
        refused: list[Refused] = []
        candidates = [(settings, True) for settings in self._models]
        candidates += [(ModelSettings(bundle=path), False) for path in self._entries()]
        for settings, configured in candidates:
            path = settings.bundle
            try:
                source = Source(self._manifest(path), settings, configured)
            except Refused as error:
                broken[path.name] = str(error)
                if configured:
                    refused.append(error)
                continue
            other = found.setdefault(source.key, source)
            if configured and other is not source:
                broken[path.name] = f"{other.settings.bundle} is {source.key} too; name one of them"
                refused.append(Malformed(f"models: {path}: {broken[path.name]}"))
            elif other.settings.bundle.resolve() != path.resolve():
                broken[path.name] = f"{other.settings.bundle} is {source.key} too; remove one"
        versions: dict[str, list[str]] = {}
        answering: dict[str, list[Key]] = {}
        for key, source in found.items():
            versions.setdefault(key.name, []).append(key.version)
            for edge_model in source.manifest.answers_for:
                answering.setdefault(edge_model, []).append(key)
        paths = {source.settings.bundle for source in found.values()}
        self._manifests = {path: kept for path, kept in self._manifests.items() if path in paths}
        self._found, self.broken, self.refused = found, broken, refused
        self._versions = {name: rising(each) for name, each in versions.items()}
        self._answering = answering

    @property
    def all(self) -> tuple[Source, ...]:
        return tuple(self._found.values())

    @property
    def names(self) -> list[str]:
        return sorted(self._versions)

    def find(self, key: Key) -> Source | None:
        return self._found.get(key)

    def newest(self, name: str) -> Source | None:
        versions = self._versions.get(name)
        return None if versions is None else self._found[Key(name, versions[-1])]

    def answering(self, edge_model: str) -> Sequence[Key]:
        """Who would take its escalations."""
        return self._answering.get(edge_model, ())

    def versions(self, name: str) -> tuple[str, ...]:
        """Rising."""
        return self._versions.get(name, ())

    def _entries(self) -> list[Path]:
        if self._folder is None:
            return []
        try:
            entries = [
                entry
                for entry in self._folder.iterdir()
                if not entry.name.startswith(".") and (entry.is_dir() or entry.suffix == ".hyb")
            ]
        except OSError as error:
            raise Malformed(f"pool.folder {self._folder}: {error.strerror}") from error
        if len(entries) > self._bundles_max:
            raise TooLarge(
                f"pool.folder {self._folder} has {len(entries)} bundles; at most "
                f"{self._bundles_max} are read: remove some, or raise pool.bundles_max"
            )
        return sorted(entries)

    def _manifest(self, path: Path) -> Manifest:
        """Its manifest, from memory while the file is as it was."""
        stated = path / MANIFEST if path.is_dir() else path
        try:
            stat = stated.stat()
        except OSError as error:
            raise Malformed(f"{path}: {error.strerror}; name a bundle's folder or file") from error
        stamp = stat.st_mtime_ns, stat.st_size, stat.st_ino
        kept = self._manifests.get(path)
        if kept is None or kept[0] != stamp:
            kept = self._manifests[path] = stamp, _read(path)
        return kept[1]


def _read(path: Path) -> Manifest:
    files: Files = (
        FolderFiles(path) if path.is_dir() else MemberFiles(str(path), read_archive(path))
    )
    content = files.read(MANIFEST, _MANIFEST_BYTES_MAX)
    return parse_manifest(content, f"{path}: {MANIFEST}")
