"""Where a worker's jobs run: the plan of each one's process, and what was reached, in words."""

import asyncio
import logging
import os
import sys
from dataclasses import dataclass, field, replace

from cloud.training.worker.apart import Cgroup, environment, own_cgroup
from cloud.training.worker.config import WorkerConfig
from cloud.training.worker.launch import Plan
from shared.errors import Unavailable

log = logging.getLogger(__name__)
_PROBE_S = 30.0


@dataclass(slots=True)
class Places:
    config: WorkerConfig
    cgroup: Cgroup | str = field(init=False)
    """Or why there is none."""

    def __post_init__(self) -> None:
        """Raises `Malformed` for a cgroup of the settings that cannot be used."""
        self.cgroup = own_cgroup(self.config.worker.cgroup, self.config.cpus)

    def make(self, job: str, cpus: int) -> Plan:
        """Raises `Unavailable` where the kernel does not let us."""
        worker = self.config.worker
        plan = Plan(
            os.getpid(), worker.gives_way, worker.cores, data_bytes_max=worker.memory_bytes_max,
            file_bytes_max=worker.folder_bytes_max,
        )  # fmt: skip
        if isinstance(self.cgroup, str):
            return plan
        try:
            place = self.cgroup.make(job, cpus, worker.memory_bytes_max)
        except OSError as error:
            raise Unavailable(f"cgroup {self.cgroup.folder}: {error.strerror or error}") from error
        return replace(plan, cgroup=str(place), data_bytes_max=None)

    def end(self, job: str) -> None:
        if isinstance(self.cgroup, Cgroup):
            self.cgroup.end(job)

    async def probe(self) -> str:
        """What a job's process reaches here: one is started for it. Raises `Unavailable`."""
        plan = self.make("probe", 1)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "cloud.training.worker.launch", plan.to_json(),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE, start_new_session=True,
                env=environment(1, "", self.config.work_dir),
            )  # fmt: skip
            async with asyncio.timeout(_PROBE_S):
                out, errors = await process.communicate()
        except (OSError, TimeoutError) as error:
            raise Unavailable(f"cannot start a job's process: {error}") from error
        finally:
            self.end("probe")
        if process.returncode:
            last = errors.decode(errors="replace").strip().rpartition("\n")[2][:300]
            raise Unavailable(
                f"a job's process does not get off others' way: {last}; see worker.cores and "
                "worker.cgroup"
            )
        reached = out.decode().strip()
        return reached if isinstance(self.cgroup, Cgroup) else f"{reached} ({self.cgroup})"
