"""The first thing that a job's process runs: it gives way to everything else, then becomes the job.

`python -m cloud.training.worker.launch PLAN WORDS...`: PLAN is JSON of `Plan`; WORDS are executed.
Without WORDS it prints what it reached, and ends. It ends with the worker, however that ends: the
kernel remembers that over an exec.
"""

import json
import os
import resource
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from cloud.batch.idle_priority import to_idle
from cloud.processes.limits import bound
from shared.parent_process import end_with_parent


@dataclass(frozen=True, slots=True)
class Plan:
    parent: int
    """Process number of the worker."""
    gives_way: bool = True
    """To everything else on this machine."""
    cores: tuple[int, ...] = ()
    """To be bound to; empty: any."""
    cgroup: str | None = None
    """Folder of the cgroup to enter."""
    data_bytes_max: int | None = None
    """RLIMIT_DATA, where no cgroup bounds the memory."""
    file_bytes_max: int | None = None
    """RLIMIT_FSIZE."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def reach(plan: Plan) -> str:
    """What holds this process from now on off others, in words."""
    reached: list[str] = []
    if plan.cgroup is not None:
        (Path(plan.cgroup) / "cgroup.procs").write_text(str(os.getpid()))
        quota = (Path(plan.cgroup) / "cpu.max").read_text("utf-8").strip()
        reached.append(f"cgroup cpu.max {quota}")
    if plan.gives_way:
        reached.append(to_idle())
    if plan.cores:
        _bind(plan.cores)
        reached.append(f"cores {','.join(map(str, sorted(os.sched_getaffinity(0))))}")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for kind, limit, name in (
        (resource.RLIMIT_DATA, plan.data_bytes_max, "memory"),
        (resource.RLIMIT_FSIZE, plan.file_bytes_max, "file"),
    ):
        if limit is not None:
            reached.append(f"{name} {bound(kind, limit) // 2**20} MiB")
    return ", ".join(reached) or "nothing"


def _bind(cores: tuple[int, ...]) -> None:
    had = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cores)
    except OSError as error:
        sys.exit(
            f"cores {list(cores)}: this process has {sorted(had)}, and none of them ({error.strerror})"
        )


def main() -> None:
    given = json.loads(sys.argv[1])
    plan = Plan(**{**given, "cores": tuple(given["cores"])})
    end_with_parent(plan.parent)
    reached = reach(plan)
    words = sys.argv[2:]
    if not words:
        sys.stdout.write(reached)
        return
    os.execv(words[0], words)  # noqa: S606  the worker's own words


if __name__ == "__main__":
    main()
