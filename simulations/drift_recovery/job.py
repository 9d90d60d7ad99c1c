"""One training job in the process that the worker starts, given its order as files."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cloud.training.child_messages import MESSAGES, Failed, Made, Order
from cloud.training.documents import FineTune
from cloud.training.worker.apart import environment
from shared.errors import Refused

EDGE, CLOUD = "fashion-edge@1.0.0", "fashion-cloud@1.0.0"
BASE: Final = Path("/usr/share/datasets/fashion-mnist")


@dataclass(frozen=True, slots=True)
class Trained:
    made: Made
    bundle: Path
    cpu_s: float
    """Of the whole process, its start included."""


def fine_tuned(recipe: FineTune, data_set: Path, models: Path, folder: Path) -> Trained:
    """Raises `Refused` with the job's own words when it fails."""
    order = Order(
        job="recovery", recipe=recipe, folder=folder, data_set=data_set, base=BASE, threads=1,
        bundles={EDGE: models / "fashion-edge", CLOUD: models / "fashion-cloud"}, checkpoint_s=600,
    )  # fmt: skip
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    with (folder / "log").open("wb") as log, subprocess.Popen(
        [sys.executable, "-m", "cloud.training.recipes.child"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=log, env=environment(order.threads, "", folder / "tmp"),
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(order.model_dump_json().encode() + b"\n")
        process.stdin.close()
        said = [MESSAGES.validate_json(line) for line in process.stdout]
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    match said[-1] if said else None:
        case Made() as made:
            return Trained(made, folder / "bundle", used.ru_utime + used.ru_stime)
        case Failed(words=words):
            raise Refused(f"the training job failed: {words}")
        case other:
            last = (folder / "log").read_text("utf-8", "replace")[-300:]
            raise Refused(
                f"the training job ended with {process.returncode}, its last word is "
                f"{other and other.kind}: {last}"
            )
