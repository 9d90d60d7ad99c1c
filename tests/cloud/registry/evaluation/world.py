"""A registry without its API: a real catalog, a real artifact store, bundles and data in them."""

import asyncio
import hashlib
import io
import shutil
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.registry.catalog.catalog import Applied, Catalog
from cloud.registry.catalog.commands import (
    AddDataSet,
    Approve,
    Command,
    PublishTrust,
    Register,
    Release,
    SetModel,
)
from cloud.registry.documents import DataSet, Evaluation, Gate, ModelVersion, Origin, StoredFile
from cloud.registry.evaluation.evaluator import Evaluator
from cloud.registry.evaluation.settings import EvaluationSettings
from cloud.registry.store.database import RegistryDatabase
from shared.bundle.manifest import Manifest
from shared.bundle.reader import open_bundle

MODELS = Path(__file__).parents[4] / "models"
QUICK = EvaluationSettings(
    nice=0, time_limit_s=60, latency_runs=20, latency_rounds=2, throughput_s=0.01,
    batch_sizes=(1, 8), robustness_rows=60, fgsm_rows=8, fgsm_directions=16,
)  # fmt: skip


class WatchedCatalog(Catalog):
    """The real one; tests can wait until a command has been applied."""

    def __init__(self, database: RegistryDatabase) -> None:
        super().__init__(database)
        self._waiting: list[tuple[type, float, asyncio.Event, asyncio.AbstractEventLoop]] = []

    def apply(self, command: Command, actor: str, now: float) -> Applied:
        applied = super().apply(command, actor, now)
        for kind, since, event, loop in self._waiting:
            if isinstance(command, kind) and now >= since:
                loop.call_soon_threadsafe(event.set)
        return applied

    def applies(self, kind: type, since: float = 0.0) -> asyncio.Event:
        """Set when the next command of that kind has been applied, at or after `since`."""
        event = asyncio.Event()
        self._waiting.append((kind, since, event, asyncio.get_running_loop()))
        return event


class World:
    def __init__(self, folder: Path) -> None:
        self.database = RegistryDatabase(f"sqlite:///{folder / 'catalog.db'}")
        self.database.open()
        self.catalog = WatchedCatalog(self.database)
        self.artifacts = Artifacts(ArtifactSettings(), folder)
        self.now = 1_000.0

    def evaluator(self, settings: EvaluationSettings = QUICK, name: str = "e1") -> Evaluator:
        return Evaluator(self.catalog, self.artifacts, settings, name, lambda: self.now)

    def set_gate(self, model: str, **gate: Any) -> None:
        self.catalog.apply(SetModel(model, "somebody", Gate(**gate)), "approver", self.now)

    async def push(self, folder: Path) -> ModelVersion:
        """As it lies there; its evaluation is queued."""
        bundle = open_bundle(folder)
        await self.artifacts.put_bytes(bundle.manifest_bytes)
        for file in bundle.manifest.files():
            await self.artifacts.put_bytes(bundle.read(file))
        command = Register(
            bundle.manifest, _stored("manifest.json", bundle.manifest_bytes), Origin(),
            str(uuid.uuid4()),
        )  # fmt: skip
        version = self.catalog.apply(command, "trainer", self.now).version
        assert version is not None
        return version

    async def add_data(self, name: str, **arrays: np.ndarray) -> None:
        content = npz(**arrays)
        await self.artifacts.put_bytes(content)
        data_set = DataSet(
            name=name, version=1, file=_stored("data.npz", content), rows=len(arrays["inputs"]),
            pushed_by="trainer", pushed_at=self.now,
        )  # fmt: skip
        self.add(data_set)

    def add(self, data_set: DataSet) -> None:
        self.catalog.apply(AddDataSet(data_set), "trainer", self.now)

    def release(self, model: str, version: str) -> None:
        trust_version = len(self.catalog.versions(model))
        self.catalog.apply(Approve(model, version, "good"), "approver", self.now)
        file = StoredFile(path=f"model-{model}.json", sha256="0" * 64, bytes=1)
        self.catalog.apply(PublishTrust(f"model-{model}", trust_version, file), "op", self.now)
        self.catalog.apply(Release(model, version, "go", trust_version), "operator", self.now)

    def newest(self, model: str, version: str) -> Evaluation:
        return self.catalog.evaluations(model, version)[-1]


def npz(**arrays: np.ndarray) -> bytes:
    packed = io.BytesIO()
    np.savez(packed, **arrays)
    return packed.getvalue()


def fashion(rows: int) -> dict[str, np.ndarray]:
    """Real images, as a data set's arrays; slices are the halves and five rows of their own."""
    with np.load(MODELS / "fashion-mnist-test-2000.npz") as held:
        images, labels = held["images"][:rows], held["labels"][:rows].astype(np.int64)
    slices = np.array(["front"] * (rows // 2) + ["back"] * (rows - rows // 2 - 5) + ["rare"] * 5)
    return {"inputs": images, "labels": labels, "slices": slices}


def another_version(source: Path, target: Path, version: str, **update: Any) -> Path:
    """The bundle of `source` once more, with another version and whatever else is said."""
    shutil.copytree(source, target)
    manifest = open_bundle(source).manifest.model_dump(mode="json")
    manifest |= {"version": version, **update}
    text = Manifest.model_validate(manifest).model_dump_json()
    (target / "manifest.json").write_text(text, "utf-8")
    listed = {file.path for file in Manifest.model_validate(manifest).files()}
    for file in target.rglob("*"):
        if file.is_file() and file.name != "manifest.json" and (
            file.relative_to(target).as_posix() not in listed
        ):  # fmt: skip
            file.unlink()
    return target


def _stored(path: str, content: bytes) -> StoredFile:
    return StoredFile(path=path, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))
