"""A worker on a shared database, in a process of its own; says each job that it was given to run.

python worker_process.py URL CLOCK_AHEAD_S HANGS RULES_JSON

HANGS: how many jobs it answers before it hangs at the next; -1: never. Ends when its stdin does.
"""

import asyncio
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from cloud.jobs.record import Claimed
from cloud.jobs.service import Jobs
from cloud.jobs.settings import JobSettings
from tests.cloud.jobs.sample import Echo, counts


async def main(url: str, ahead_s: float, hangs: int, rules: JobSettings) -> None:
    answered = 0

    async def before(job: Claimed) -> None:
        nonlocal answered
        print("asked", job.id.int, flush=True)
        if answered == hangs:
            await asyncio.sleep(3600)
        answered += 1

    jobs = Jobs(url, rules, Echo(before), counts(), wall=lambda: time.time() + ahead_s)
    await jobs.open()
    print("ready", flush=True)
    running = asyncio.create_task(jobs.run())
    await asyncio.to_thread(sys.stdin.read)
    jobs.drain()
    await running
    await jobs.close()


asyncio.run(
    main(
        sys.argv[1], float(sys.argv[2]), int(sys.argv[3]),
        JobSettings.model_validate_json(sys.argv[4]),
    )
)  # fmt: skip
