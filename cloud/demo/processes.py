"""Start one of our programs, wait until it says that it is ready, end it by its process id."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.errors import Unavailable

_READY_S = 60.0
_DRAIN_S = 30.0
_TAIL_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class Running:
    name: str
    process: asyncio.subprocess.Process
    ready: dict[str, str]  # the line that it printed when it was ready
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    async def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Send `how` and wait; the exit status. SIGKILL follows when draining takes too long."""
        if self.process.returncode is None:
            os.kill(self.process.pid, how)
            try:
                async with asyncio.timeout(_DRAIN_S):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
        return await self.process.wait()


async def start(name: str, arguments: Sequence[str], folder: Path) -> Running:
    """Run `python ARGUMENTS`; returns at its ready line. Raises `Unavailable` with its last words.

    Its log (standard error) goes to `folder/name.log`.
    """
    log = folder / f"{name}.log"
    with log.open("ab") as file:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, stderr=file
        )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_READY_S):
            line = await process.stdout.readline()
        ready = json.loads(line)
    except (TimeoutError, ValueError) as error:
        if process.returncode is None:
            process.kill()
        await process.wait()
        last = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
        raise Unavailable(f"{name} did not become ready; the end of {log}:\n{last}") from error
    return Running(name, process, ready, log)


@asynccontextmanager
async def running(name: str, arguments: Sequence[str], folder: Path) -> AsyncGenerator[Running]:
    """`start`, and `end` on the way out."""
    started = await start(name, arguments, folder)
    try:
        yield started
    finally:
        await started.end()
