"""Which loaded version a name leads to. Changes are whole: nobody sees half a swap."""

from cloud.serving.pool_plan import Key, Resident, rising
from cloud.serving.served import Served
from shared.bundle.manifest import Manifest
from shared.errors import Malformed


class PoolTable:
    def __init__(self) -> None:
        self.loaded: dict[Key, Served] = {}
        self.by_version: dict[tuple[str, str], Served] = {}
        self.active: dict[str, Served] = {}
        self.chosen: dict[str, str] = {}
        """The version that a name leads to, whether that is loaded or not."""
        self.answering: dict[str, Served] = {}
        """By the edge models' names and by the active models' own."""

    def insert(self, served: Served) -> None:
        """Let it be found by its version."""
        self.loaded[Key(served.name, served.version)] = served
        self.by_version[served.name, served.version] = served

    def activate(self, served: Served) -> None:
        """Let its name lead to it. Raises `Malformed` when another model answers for the same."""
        self.refuse_conflict(served.manifest)
        self._forget(self.active.get(served.name))
        self.active[served.name] = served
        self.chosen[served.name] = served.version
        for name in (served.name, *served.manifest.answers_for):
            self.answering[name] = served

    def remove(self, key: Key) -> Served:
        """Forget a version; if its name led to it, it leads nowhere then."""
        served = self.loaded.pop(key)
        del self.by_version[key.name, key.version]
        if self.active.get(key.name) is served:
            self._forget(served)
            del self.active[key.name]
        return served

    def refuse_conflict(self, manifest: Manifest) -> None:
        """Raises `Malformed` when another model answers for one of its names."""
        for name in (manifest.name, *manifest.answers_for):
            other = self.answering.get(name)
            if other is not None and other.name != manifest.name:
                raise Malformed(
                    f"{other.name} and {manifest.name} both answer for {name!r}; serve one of them"
                )

    def residents(self) -> list[Resident]:
        return [
            Resident(
                key=key, memory_bytes=served.memory_bytes, used_at=served.used_at,
                active=self.active.get(key.name) is served,
                busy=served.batcher.busy, pinned=served.pinned,
            )
            for key, served in self.loaded.items()
        ]  # fmt: skip

    def versions(self, name: str) -> tuple[str, ...]:
        """The loaded ones, rising."""
        return rising(key.version for key in self.loaded if key.name == name)

    def _forget(self, served: Served | None) -> None:
        if served is not None:
            for name in (served.name, *served.manifest.answers_for):
                if self.answering.get(name) is served:
                    del self.answering[name]
