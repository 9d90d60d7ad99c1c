"""What a train-worker reads of `learning.toml`: the sections that are its own.

The others are the process `learning`'s, which checks the file as a whole.
"""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict

from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.settings_file import checked, read_settings
from cloud.training.queue.settings import Training
from cloud.training.worker.settings import TrainWorker, WorkerRegistry
from shared.config import Section

PATHS = frozenset({
    "state_dir", "work_dir", "base_data", "fashion_mnist", "root", "push_key_file", "api_key_file",
    "ca", "certificate", "key",
})  # fmt: skip


class WorkerConfig(Section):
    model_config = ConfigDict(extra="ignore")  # other sections are other processes'

    state_dir: Path = Path("hybridge-learning")
    """The process `learning`'s, where they share a machine; else of its own."""
    training: Training = Training()
    artifacts: ArtifactSettings = ArtifactSettings()
    """The store that data sets come from and bundles go to: the process `learning`'s."""
    worker: TrainWorker = TrainWorker()
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def database_url(self) -> str:
        return self.training.url or f"sqlite:///{self.state_dir / 'learning.db'}"

    @property
    def name(self) -> str:
        return self.worker.name or _plain(socket.gethostname())

    @property
    def cpus(self) -> int:
        return self.worker.cpus or len(self.worker.cores) or len(os.sched_getaffinity(0))

    @property
    def work_dir(self) -> Path:
        return self.worker.work_dir or self.state_dir / "work"


def load(path: Path, over: Mapping[str, object]) -> WorkerConfig:
    """Its sections of the file, with those of `over` on top; without a `worker.registry`, what the
    process `learning` asks. Raises `Malformed` in words.
    """
    tree = read_settings(WorkerConfig, path, over, PATHS)
    worker = tree.setdefault("worker", {})
    registry = tree.get("registry")
    if isinstance(worker, dict) and isinstance(registry, dict) and "root" in registry:
        asked = {name: registry[name] for name in WorkerRegistry.model_fields if name in registry}
        worker.setdefault("registry", asked)
    if isinstance(worker, dict) and isinstance(worker.get("bundles"), list):
        worker["bundles"] = [str(path.parent / str(one)) for one in worker["bundles"]]
    return checked(WorkerConfig, tree, str(path))


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_.-" else "-" for c in name)[:64] or "worker"
