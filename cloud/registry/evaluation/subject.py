"""A variant in a process of its own, as the evaluator sees it: it answers, or it broke, and why."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from pydantic import ValidationError

from cloud.registry.evaluation.subject_messages import (
    LINE_BYTES_MAX,
    REPLIES,
    Answered,
    Failed,
    Open,
    Opened,
    Reply,
    Request,
    Timed,
)
from shared.errors import Refused, Unavailable

R = TypeVar("R", Opened, Answered, Timed)
_PROGRAM = "from cloud.registry.evaluation.subject_process import main; main()"
_STDERR_BYTES_KEPT = 2000
_KEPT_ENVIRONMENT = (
    "PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "SYSTEMROOT", "CUDA_VISIBLE_DEVICES",
)  # fmt: skip
_DOING = {
    "open": "opening the model", "golden": "answering the golden samples",
    "answer": "answering the data", "step": "estimating gradients", "time": "being timed",
}  # fmt: skip


class ModelBroke(Refused):
    """The model's engine crashed, hung, starved or refused: a finding about the model."""


class EngineAbsent(Unavailable):
    """This machine cannot run the engine."""


class Subject:
    """One child process. Not for use by two tasks at once."""

    def __init__(self, process: asyncio.subprocess.Process, limit_s: float) -> None:
        self._process = process
        self._limit_s = self._left_s = limit_s
        self._said = b""
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._requests, self._replies = process.stdin, process.stdout
        self._stderr = process.stderr
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    @asynccontextmanager
    async def started(cls, limit_s: float) -> AsyncIterator["Subject"]:
        """`limit_s` is for all that it is asked, while it is asked. It is gone, by force, when the block ends."""
        path = os.pathsep.join(part for part in sys.path if part)
        kept = {name: os.environ[name] for name in _KEPT_ENVIRONMENT if name in os.environ}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _PROGRAM,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**kept, "PYTHONPATH": path},  # no passwords: what runs in there is not ours
            limit=LINE_BYTES_MAX, start_new_session=True,
        )  # fmt: skip
        subject = cls(process, limit_s)
        try:
            yield subject
        finally:
            await subject._end()

    @property
    def pid(self) -> int:
        return self._process.pid

    async def open(self, request: Open) -> Opened:
        return await self.ask(request, Opened)

    async def ask(self, request: Request, expected: type[R]) -> R:
        """Raises `ModelBroke` or `EngineAbsent`, with what happened in words."""
        reply = await self._reply(request)
        if isinstance(reply, Failed):
            raise (EngineAbsent if reply.absent else ModelBroke)(reply.why)
        if not isinstance(reply, expected):
            raise ModelBroke(f"its process answered {reply.is_} while {_DOING[request.do]}")
        return reply

    async def _reply(self, request: Request) -> Reply:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._left_s):
                self._requests.write(request.model_dump_json().encode() + b"\n")
                await self._requests.drain()
                line = await self._replies.readline()
        except TimeoutError as error:
            await self._end()
            raise ModelBroke(
                f"it was not done after {self._limit_s:g} s, still {_DOING[request.do]}; it hangs, "
                "or time_limit_s is too short for it"
            ) from error
        except ValueError as error:
            await self._end()
            raise ModelBroke(
                f"its process said over {LINE_BYTES_MAX} bytes at once while {_DOING[request.do]}"
            ) from error
        except ConnectionError:  # gone
            line = b""
        self._left_s -= loop.time() - began
        if not line.endswith(b"\n"):
            raise ModelBroke(await self._how_it_ended(_DOING[request.do]))
        try:
            return REPLIES.validate_json(line)
        except ValidationError as error:
            raise ModelBroke(f"its process answered nonsense while {_DOING[request.do]}") from error

    async def _how_it_ended(self, doing: str) -> str:
        self._kill()  # nothing comes of one that has closed its end and lives on
        code = await self._process.wait()
        await self._listening
        words = " ".join(self._said.decode(errors="replace").split())[-300:]
        said = f"; it said last: {words}" if words else ""
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
            starved = " (out of memory, or ended by somebody)" if -code == signal.SIGKILL else ""
            return f"its engine died of {name}{starved} while {doing}{said}"
        return f"its process ended with code {code} while {doing}{said}"

    async def _listen(self) -> None:
        while piece := await self._stderr.read(4096):
            self._said = (self._said + piece)[-_STDERR_BYTES_KEPT:]

    def _kill(self) -> None:
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _end(self) -> None:
        self._kill()
        self._requests.close()
        await self._process.wait()
        await self._listening
