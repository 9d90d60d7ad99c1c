"""What tells one run's checkpoints from another's."""

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cloud.training.recipes.loop import FitTask


def run_key(task: "FitTask", processes: int) -> str:
    """Of everything that the steps depend on, first weights aside: 64 hexadecimal digits.

    Soft labels that were computed on this machine count by what they were computed from: another one
    would else take its checkpoint for another run's.
    """
    shapes = [(name, list(t.shape), str(t.dtype)) for name, t in task.model.state_dict().items()]
    settings = {
        "fitting": task.fitting.model_dump(mode="json"), "network": shapes, "key": task.key,
        "made_from": task.made_from,
        "momentum": task.momentum, "warm_share": task.warm_share,
        "average_decay": task.average_decay, "processes": processes,
        "turns": None if task.turns is None else [part.each for part in task.turns],
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for part in (*task.data, *(part.rows for part in task.turns or ())):
        array = part.contiguous().numpy()
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        if not (task.made_from and part.is_floating_point()):
            digest.update(array.data)
    return digest.hexdigest()
