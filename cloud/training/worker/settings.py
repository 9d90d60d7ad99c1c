"""The `worker` part of the settings: what `hybridge-cloud train-worker` may use, and where it looks."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from shared.config import Count, Positive, Section
from shared.fetching.settings import Server


class WorkerRegistry(Server):
    """Where bundles come from that a job begins with, and where its own goes."""

    root: Path
    """The registry's root of trust (`1.root.json`): what it vouches for is taken, nothing else."""
    push_key_file: Path | None = None
    """The API key of a trainer, in its first line. None: `api_key_file`'s."""


class TrainWorker(Section):
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,64}$")] | None = None
    """One of its own for each process. None: this machine's."""
    cpus: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Threads of all its jobs together. None: as many as `cores` has, or this machine."""
    cores: Annotated[tuple[Annotated[int, Field(ge=0, le=4095)], ...], Field(max_length=4096)] = ()
    """Cores that the worker and its jobs are bound to, from 0. Empty: any; then they run where nothing else wants to."""
    gives_way: bool = True
    """Jobs run where nothing else wants a core (SCHED_IDLE, nice 19), the worker at nice 10. False: this machine is the
    worker's own; else what is online becomes slower."""
    work_dir: Path | None = None
    """A folder for each job under way. None: `work` in `state_dir`."""
    beat_s: Annotated[float, Field(ge=0.05, le=60)] = 1.0
    """Between two looks at the queue, each of which renews the leases and stores what jobs said.
    Default: a person who watches sees every step; one short transaction."""
    silence_s: Positive = 300.0
    """A job that says nothing for so long hangs. Default: the longest step of any recipe, thrice."""
    start_s: Positive = 120.0
    """And before its first word: torch is imported, from a slow disk under load."""
    grace_s: Positive = 30.0
    """From the request to stop until it is killed. Default: one step and one checkpoint."""
    checkpoint_s: Positive = 30.0
    """Between two checkpoints at most: what a power cut costs."""
    checkpoints_kept: Annotated[Count, Field(le=16)] = 2
    """Newest ones on disk; one more than none, in case the newest does not verify."""
    checkpoint_shared_s: Positive = 300.0
    """Between two copies of a job's checkpoint to the artifact store, from where another machine
    goes on; one is made when it gives its place or its worker ends, where that takes no longer than ten
    seconds. Default: little beside what a lost machine costs."""
    lines_per_s_max: Count = 500
    """That a job may say, over ten seconds; a job that floods is ended."""
    folder_bytes_max: Count = 8 * 1024**3
    """Of one job's folder; a job that is over it is ended."""
    free_bytes_min: Annotated[int, Field(ge=0)] = 1024**3
    """With less on the disk of `work_dir` the worker takes no jobs: others need it."""
    folders_kept: Annotated[int, Field(ge=0, le=1000)] = 16
    """Folders of interrupted jobs, which may come back here; the oldest go first. A job that is over
    leaves none."""
    memory_bytes_max: Count | None = None
    """Of one job: `memory.max` of its cgroup, or RLIMIT_DATA of each of its processes. None: no
    bound, and then a job that takes all has the kernel choose whom it kills: jobs first."""
    cgroup: Literal["auto", "never"] | Path = "auto"
    """Folder of a cgroup (v2) that is delegated to this process. auto: its own, where that is."""
    gpus: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9,:_/-]{0,200}$")] = ""
    """CUDA_VISIBLE_DEVICES of its jobs; empty: none is seen."""
    ray_address: (
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.:_\[\]-]{1,200}$")] | None
    ) = None
    """`host:port` of the Ray cluster that jobs with the engine "ray" run over, as RAY_ADDRESS in their
    environment. None: one that runs on this machine."""
    bundles: Annotated[tuple[Path, ...], Field(max_length=64)] = ()
    """Folders of bundles (`fashion-edge/`, or `fashion-edge-1.0.0.hyb`), looked at before the
    registry is asked; what lies in them is trusted."""
    base_data: Path | None = None
    """Folder of labelled base data, `NAME.npz` each (`cloud/training/recipes/base_data.py`)."""
    fashion_mnist: Path = Path("/usr/share/datasets/fashion-mnist")
    """Where Debian's dataset-fashion-mnist puts it: the base data `fashion-mnist`."""
    registry: WorkerRegistry | None = None
    """None: bundles come from `bundles` alone, and a job that is to push fails."""
    mlflow: Annotated[str, StringConstraints(max_length=300)] | None = None
    """`http://host:port` of an MLflow server that this worker copies the run of a job to when the job
    ends with it: not one that is cancelled while it waits, or given up because its worker vanished."""
