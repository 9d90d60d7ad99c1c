"""Jobs and serving share no CPU that serving wants: what holds them apart on this machine.

A cgroup (v2) of its own where this process may make one: `cpu.max` bounds its jobs, `cpu.weight` 1
lets everything else go first, `memory.max` ends the job and nothing else. SCHED_IDLE, nice 19 and a
session of its own in any case (`launch.py`), and a bound set of cores where the settings name one.
"""

import errno
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from cloud.training.worker.settings import TrainWorker
from shared.errors import Malformed

_PERIOD_US: Final = 100_000
_NICE: Final = 10
"""Of the worker itself: after everything else, and before its jobs, whose leases it renews."""
_NEEDED: Final = frozenset({"cpu", "memory"})
_KEEPS_MEMORY: Final = {
    "MALLOC_MMAP_THRESHOLD_": str(2**25),  # the most that every glibc takes
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""glibc gives each step's tensors back to the kernel, which clears the pages anew: 20,000 faults a
second, and memory that serving waits for. Kept, and in huge pages, a step has none (mallopt(3))."""
_MOUNTS: Final = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A folder of the cgroup file system, below which each job has one of its own."""

    folder: Path

    def make(self, job: str, cpus: int, memory_bytes_max: int | None) -> Path:
        """A job's; `OSError` where the kernel does not let us."""
        place = self.folder / job
        place.mkdir(exist_ok=True)
        (place / "cpu.max").write_text(f"{cpus * _PERIOD_US} {_PERIOD_US}")
        if memory_bytes_max is not None:
            (place / "memory.max").write_text(str(memory_bytes_max))
        return place

    def end(self, job: str) -> None:
        """Kill what is left in a job's, and remove it."""
        place = self.folder / job
        with suppress(OSError):
            (place / "cgroup.kill").write_text("1")
        with suppress(OSError):
            place.rmdir()


def own_cgroup(
    wanted: Literal["auto", "never"] | Path,
    cpus: int,
    mounts: Sequence[Path] = _MOUNTS,
    membership: Path = Path("/proc/self/cgroup"),
) -> Cgroup | str:
    """One to make jobs' in, or why there is none.

    Raises `Malformed` where the settings name one that cannot be used.
    """
    if wanted == "never":
        return "no cgroup is wanted"
    is_named = isinstance(wanted, Path)
    folder = wanted if isinstance(wanted, Path) else _own_folder(mounts, membership)
    if folder is None:
        return "no cgroup v2 here"
    try:
        return Cgroup(_prepared(folder, cpus))
    except OSError as error:
        why = f"cgroup {folder}: {error.strerror or error}"
        if is_named:
            raise Malformed(
                f"worker.cgroup {why}; delegate it to this user (systemd: Delegate=cpu memory), or "
                'say "never"'
            ) from error
        return why


def _own_folder(mounts: Sequence[Path], membership: Path) -> Path | None:
    mount = next((one for one in mounts if (one / "cgroup.controllers").is_file()), None)
    if mount is None:
        return None
    with suppress(OSError):
        for line in membership.read_text("utf-8").splitlines():
            if line.startswith("0::"):
                return mount / line[3:].lstrip("/")
    return None


def _prepared(folder: Path, cpus: int) -> Path:
    """A subtree for jobs; this process moves into a leaf beside it: the kernel lets a group that has
    children with controllers hold no processes of its own (cgroup-v2.rst, "No Internal Process").
    """
    offered = set((folder / "cgroup.controllers").read_text("utf-8").split())
    if not offered >= _NEEDED:
        lacking = ", ".join(sorted(_NEEDED - offered))
        raise OSError(errno.ENOTSUP, f"the controllers {lacking} are not delegated to it")
    leaf = folder / "train-worker"
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))
    enable = "+cpu +memory"
    (folder / "cgroup.subtree_control").write_text(enable)
    jobs = folder / "train-jobs"
    jobs.mkdir(exist_ok=True)
    (jobs / "cpu.max").write_text(f"{cpus * _PERIOD_US} {_PERIOD_US}")
    (jobs / "cpu.weight").write_text("1")
    (jobs / "cgroup.subtree_control").write_text(enable)
    return jobs


def give_way(worker: TrainWorker) -> None:
    """Of this process, the worker's own: its beats would delay what is online by some milliseconds each."""
    if worker.cores and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):  # no such core: the probe of a job's process says it in words
            os.sched_setaffinity(0, worker.cores)
    if worker.gives_way:
        now = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, 0, max(now, _NICE))


def environment(
    threads: int, gpus: str, temporary: Path, ray_address: str | None = None
) -> dict[str, str]:
    """Of a job's process: no more threads than it asked for in any library, no GPU but its own, and no Ray
    cluster but the one that the settings name.
    """
    cluster = {} if ray_address is None else {"RAY_ADDRESS": ray_address}
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "VIRTUAL_ENV", "SSL_CERT_FILE"}
    }  # fmt: skip
    number = str(threads)
    return kept | {
        "OMP_NUM_THREADS": number, "MKL_NUM_THREADS": number, "OPENBLAS_NUM_THREADS": number,
        "NUMEXPR_NUM_THREADS": number, "CUDA_VISIBLE_DEVICES": gpus, "ORT_DISABLE_TELEMETRY": "1",
        "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1", "TMPDIR": str(temporary), **_KEEPS_MEMORY,
        **cluster,
    }  # fmt: skip


def waited_for_core_s(pid: int) -> float:
    """For how long the process has been ready to run while others had the cores (its first thread;
    schedstat of proc(5)); 0 where the kernel does not tell.
    """
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text("utf-8").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def folder_bytes(folder: Path) -> int:
    """Of every file in it, as it fills the disk; what goes while it is counted does not count."""
    total = 0
    for place, _, files in os.walk(folder):
        for name in files:
            with suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_blocks * 512  # noqa: PTH118  many
    return total


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free
