"""A job's process: started apart, told its order, heard line by line, ended for certain."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from cloud.training.child_messages import LINE_BYTES_MAX, Order
from cloud.training.worker.launch import Plan
from cloud.training.worker.leftovers import MARK, end_leftovers
from cloud.training.worker.racing import first
from cloud.training.worker.watch import Astray
from shared.errors import Unavailable
from shared.plain_text import plain

log = logging.getLogger(__name__)
CHILD: Final = (sys.executable, "-m", "cloud.training.recipes.child")
_STDERR_LINE_MAX: Final = 2000
_READ_BYTES: Final = 64 * 1024
_KILLED_S: Final = 60.0
"""Until one that was killed has ended: it gives way to everything, and its memory is cleared first."""
_PIPES_S: Final = 5.0
"""For what is still in its pipes then."""


class Child:
    """`start` it; whoever does calls `end`, whatever happens between."""

    def __init__(
        self, process: asyncio.subprocess.Process, folder: Path, said: Callable[[str], None]
    ) -> None:
        self._process, self._folder = process, folder
        self._errors = asyncio.create_task(self._read_errors(said), name="stderr")

    @classmethod
    async def start(
        cls,
        order: Order,
        plan: Plan,
        environment: Mapping[str, str],
        said: Callable[[str], None],
        words: Sequence[str] = CHILD,
    ) -> "Child":
        """`said` gets each line of its stderr. Raises `Unavailable` where it cannot be started.

        The kernel ends it with this thread (`launch.py`): the loop's, which lasts as the worker does.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "cloud.training.worker.launch", plan.to_json(), *words,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE, limit=LINE_BYTES_MAX, env={**environment, MARK: str(order.folder)},
                cwd=order.folder, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Unavailable(f"cannot start a job's process: {error.strerror}") from error
        child = cls(process, order.folder, said)
        assert process.stdin is not None
        process.stdin.write(order.model_dump_json().encode() + b"\n")
        with suppress(ConnectionError):  # it ended at once: its exit code says more
            await process.stdin.drain()
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    async def lines(self) -> AsyncIterator[bytes]:
        """What it says, until it says no more. Raises `Astray` for a line without end."""
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                if error.partial:
                    raise Astray(
                        f"it ended in the middle of a line, {error.partial[:60]!r}"
                    ) from error
                return
            except asyncio.LimitOverrunError as error:
                raise Astray(f"it wrote a line of over {LINE_BYTES_MAX} bytes") from error
            yield line

    def ask_to_stop(self) -> None:
        """SIGTERM to itself: it tells its own processes."""
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)

    async def end(self, within_s: float, at_once: asyncio.Event) -> int:
        """Its exit code; after `within_s`, or `at_once`, it and all of its session are killed, and then
        whatever else carries its mark.
        """
        assert self._process.stdout is not None
        rest = asyncio.create_task(_drop(self._process.stdout), name="rest")
        exited = asyncio.create_task(_exited(self._process), name="exited")
        try:
            await first(exited, at_once, within_s=within_s)
            if not exited.done():
                log.warning("job_process_killed", extra={"pid": self.pid})
        finally:
            exited.cancel()
            if self._process.returncode is None:
                self._kill_session()
            await asyncio.to_thread(end_leftovers, self._folder)
        with suppress(TimeoutError):
            async with asyncio.timeout(_KILLED_S):
                await _exited(self._process)
        over = asyncio.create_task(self._process.wait(), name="over")  # of its pipes, too
        _, held = await asyncio.wait([over, rest, self._errors], timeout=_PIPES_S)
        if held:  # by what it started without its mark
            log.warning("job_pipes_held", extra={"pid": self.pid})
            # our ends: nothing public closes those that read
            self._process._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001
            for task in held:
                task.cancel()
            await asyncio.wait(held)
        code = self._process.returncode
        return -signal.SIGKILL if code is None else code

    def _kill_session(self) -> None:
        """With what it started there. It has not been waited for, so that its number is its own."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def _read_errors(self, said: Callable[[str], None]) -> None:
        """Lines for people; longer ones are cut, and what is no UTF-8 is replaced."""
        assert self._process.stderr is not None
        rest = b""
        while part := await self._process.stderr.read(_READ_BYTES):
            *whole, rest = (rest + part).split(b"\n")
            rest = rest[:_STDERR_LINE_MAX]
            for line in whole:
                _tell(line, said)
        _tell(rest, said)


async def _exited(process: asyncio.subprocess.Process) -> None:
    """Of itself: asyncio's own wait is for its pipes as well, which others may hold."""
    try:
        number = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(number, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(number)
        os.close(number)


async def _drop(pipe: asyncio.StreamReader) -> None:
    while await pipe.read(_READ_BYTES):
        pass


def _tell(line: bytes, said: Callable[[str], None]) -> None:
    if text := line[:_STDERR_LINE_MAX].decode(errors="replace").strip():
        said(plain(text))


def how_it_ended(code: int) -> str:
    """In words."""
    if code >= 0:
        return f"it ended with code {code} and no last word"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    hint = " (the kernel does that when memory runs out)" if -code == signal.SIGKILL else ""
    return f"signal {name} ended it{hint}"
