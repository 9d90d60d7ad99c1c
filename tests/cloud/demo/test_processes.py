"""What the demo starts ends with the demo, however that ends."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cloud.demo.processes import running, start, while_running
from shared.errors import Unavailable

_BROKER = ("-m", "cloud.broker", "--port", "0")
_PARENT = """
import asyncio, sys
from pathlib import Path
from cloud.demo.processes import start
async def main():
    broker = await start("broker", ("-m", "cloud.broker", "--port", "0"), Path(sys.argv[1]))
    print(broker.pid, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


def _ends_within(pid: int, seconds: float) -> bool:
    watched = os.pidfd_open(pid)
    try:
        readable, _, _ = select.select([watched], [], [], seconds)
    finally:
        os.close(watched)
    return bool(readable)


def test_a_child_does_not_outlive_a_parent_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        assert _ends_within(child, 10)


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_one_that_is_cancelled_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(0.5):
            await start("never", ("-c", "import signal; signal.pause()"), tmp_path)

    before = _children()
    with pytest.raises(TimeoutError):
        asyncio.run(scenario())
    assert _children() <= before


def test_work_ends_with_the_words_of_a_process_that_died(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running("broker", _BROKER, tmp_path) as broker:
            working = asyncio.create_task(while_running(asyncio.Event().wait(), [broker]))
            await asyncio.sleep(0)
            os.kill(broker.pid, signal.SIGKILL)
            await working

    with pytest.raises(Unavailable, match="broker ended with -9"):
        asyncio.run(scenario())


def test_work_that_is_done_counts_although_a_process_ends(tmp_path: Path) -> None:
    async def scenario() -> str:
        async with running("broker", _BROKER, tmp_path) as broker:

            async def work() -> str:
                return "done"

            return await while_running(work(), [broker])

    assert asyncio.run(scenario()) == "done"
