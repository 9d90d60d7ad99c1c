"""A learning process with samples in its store, and a training worker whose jobs learn nothing."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cloud.gateway.roles import Role
from cloud.store.feedback import FeedbackTable
from tests.cloud.cli.own_registry import Said, hybridge
from tests.cloud.feedback.world import PLENTY, row
from tests.cloud.keyed_process import ROOT, KeyedProcess
from tests.tiny_bundle import write_tiny_bundle

ROLES = (Role.VIEWER, Role.LABELLER, Role.TRAINER, Role.APPROVER, Role.OPERATOR)
ROWS = 40
_WORKER = str(ROOT / "tests" / "cloud" / "training" / "worker" / "worker_process.py")
_SETTINGS = """
[worker]
name = "w"
cpus = 4
beat_s = 0.05
base_data = "base"
cgroup = "never"
gives_way = false
bundles = ["bundles"]
free_bytes_min = 0
"""


class OwnLearning(KeyedProcess):
    def run(self, role: str, *arguments: str | Path) -> Said:
        return hybridge(*arguments, *self.asked(role))

    def found(self, role: str, *arguments: str | Path) -> Any:
        """What the command prints with -o json; it must have done it."""
        return self.run(role, *arguments, "-o", "json").json

    def asked(self, role: str) -> tuple[str, ...]:
        return ("--learning", self.url, "--key-file", str(self.key_file(role)))

    def plan(self, name: str, **plan: object) -> None:
        """What a job on the base data of that name does: see `fake_child.py`."""
        (self.folder / "base" / f"{name}.npz").write_text(json.dumps(plan))


@contextmanager
def own_learning(folder: Path) -> Iterator[OwnLearning]:
    """Both processes, until the block ends; then killed."""
    (folder / "base").mkdir(parents=True)
    write_tiny_bundle(folder / "bundles" / "tiny-edge")
    with OwnLearning("learning", folder, ROLES, _SETTINGS, {}) as running:
        table = FeedbackTable(f"sqlite:///{running.state_dir / 'feedback.db'}", PLENTY)
        table.open()
        table.write(
            [
                row(number, device=f"cam-{number % 4}", label=number % 3, at=1.8e9 + number)
                for number in range(ROWS)
            ]
        )
        table.close()
        worker = subprocess.Popen(
            [sys.executable, _WORKER, str(running.config)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline()
            yield running
        finally:
            worker.kill()
            worker.wait(30)
            if worker.stdout is not None:
                worker.stdout.close()
