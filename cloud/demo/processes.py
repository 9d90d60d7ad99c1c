"""Start one of our programs, wait until it says that it is ready, end it by its process id.

What is started here ends with this process, however that ends: the kernel sends SIGTERM to a child
whose parent is gone (Linux, prctl(2), PR_SET_PDEATHSIG).
"""

import asyncio
import ctypes
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from shared.errors import Unavailable

T = TypeVar("T")
_READY_S = 60.0
_DRAIN_S = 30.0
_NOTICE_S = 1.0  # a failed request may tell of an end sooner than the kernel does
_TAIL_BYTES = 2_000
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


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
            sys.executable, *arguments,
            stdout=asyncio.subprocess.PIPE, stderr=file, preexec_fn=_end_with_parent,
        )  # fmt: skip
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_READY_S):
            ready = json.loads(await process.stdout.readline())
    except (TimeoutError, ValueError) as error:
        await _kill(process)
        raise Unavailable(f"{name} did not become ready; {_last_words(log)}") from error
    except BaseException:  # cancelled while it starts: it must not stay behind
        await _kill(process)
        raise
    return Running(name, process, ready, log)


@asynccontextmanager
async def running(name: str, arguments: Sequence[str], folder: Path) -> AsyncGenerator[Running]:
    """`start`, and `end` on the way out."""
    started = await start(name, arguments, folder)
    try:
        yield started
    finally:
        await started.end()


async def while_running(work: Awaitable[T], processes: Sequence[Running]) -> T:
    """Wait for `work`. Raises `Unavailable` with its last words when a process ends before it."""
    working = asyncio.ensure_future(work)
    ends = {asyncio.ensure_future(running.process.wait()): running for running in processes}
    try:
        await asyncio.wait({working, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if working.done() and working.exception() is None:
            return working.result()
        await asyncio.wait(ends, timeout=_NOTICE_S, return_when=asyncio.FIRST_COMPLETED)
        for end, ended in ends.items():
            if end.done():
                words = f"{ended.name} ended with {end.result()}; {_last_words(ended.log)}"
                raise Unavailable(words)
        return await working
    finally:
        for task in (working, *ends):
            task.cancel()
        await asyncio.gather(working, *ends, return_exceptions=True)


async def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def _last_words(log: Path) -> str:
    last = log.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
    return f"the end of its log:\n{last}" if last else "it logged nothing"


def _end_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
