"""The probe, seen from the agent: a child process opens the candidate, so that one that crashes,
hangs or eats the memory takes nobody with it.
"""

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from edge.updates.trial import latency_fault
from shared.errors import Refused

PROGRAM = "from edge.updates.probe_child import main; main()"
_ANSWER_BYTES_MAX = 64 * 1024
_WORDS_MAX = 400
_END_S_MAX = 5.0

Words = Annotated[str, StringConstraints(max_length=2000)]


class Unfit(Refused):
    """The candidate does not do here what it should."""

    def __init__(self, why: str, *, golden: bool = False) -> None:
        """`golden`: its answers to the golden samples are the reason."""
        super().__init__(why)
        self.golden = golden


class Answer(BaseModel):
    """What the child says; hostile, for it has run the candidate."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    refused: Words | None = None
    golden: bool = False  # its answers to the golden samples are the reason
    variant: Annotated[str, StringConstraints(max_length=40)] = ""
    latency_ms: Annotated[float, Field(ge=0)] = 0.0
    active_ms: Annotated[float, Field(ge=0)] | None = None
    others: dict[str, Words] = {}


@dataclass(frozen=True, slots=True)
class Bounds:
    s_max: float
    latency_ms_max: float
    slower_max: float


@dataclass(frozen=True, slots=True)
class Probed:
    """A candidate that passed."""

    variant: str
    why: str


async def probe(
    candidate: Path,
    active: Path,
    *,
    engine: str,
    active_variant: str,
    cache_dir: Path,
    bounds: Bounds,
    program: str = PROGRAM,
) -> Probed:
    """Golden samples and latency of the bundle `candidate` on this hardware, beside `active`.

    `engine` as the agent's settings have it. Raises `Unfit` with the reason.
    """
    asked = {
        "candidate": str(candidate), "active": str(active), "engine": engine,
        "active_variant": active_variant, "cache_dir": str(cache_dir), "parent": str(os.getpid()),
    }  # fmt: skip
    answer = await _ask_child(json.dumps(asked).encode(), program, bounds.s_max)
    if answer.refused is not None:
        raise Unfit(answer.refused, golden=answer.golden)
    fault = latency_fault(
        answer.latency_ms, answer.active_ms, bounds.latency_ms_max, bounds.slower_max
    )
    if fault is not None:
        raise Unfit(f"{answer.variant}: {fault}")
    beside = "" if answer.active_ms is None else f" (active {answer.active_ms:.3g} ms)"
    return Probed(
        answer.variant,
        f"{answer.variant} passes the golden samples in {answer.latency_ms:.3g} ms{beside}",
    )


async def _ask_child(asked: bytes, program: str, s_max: float) -> Answer:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)},
    )  # fmt: skip
    talking = asyncio.ensure_future(_talk(child, asked))
    try:
        async with asyncio.timeout(s_max):
            said, complaints, status = await asyncio.shield(talking)
    except TimeoutError as error:
        raise Unfit(f"hangs: the probe did not end within {s_max:g} s") from error
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)  # and whatever it started
        # Its pipes are read to their end: asyncio sees no process end before that.
        await asyncio.wait({talking}, timeout=_END_S_MAX)
        talking.cancel()
    if status != 0:
        end = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit code {status}"
        words = " ".join(complaints.decode("utf-8", "replace").split())[-_WORDS_MAX:]
        raise Unfit(f"took the probe's process down ({end}): {words}")
    try:
        return Answer.model_validate_json(said)
    except ValidationError as error:
        raise Unfit("the probe's process answered with something else than figures") from error


async def _talk(child: asyncio.subprocess.Process, asked: bytes) -> tuple[bytes, bytes, int]:
    """Both streams at once, each no further than its bound in memory."""
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    with suppress(BrokenPipeError, ConnectionResetError):
        child.stdin.write(asked)
        await child.stdin.drain()
    child.stdin.close()
    said, complaints = await asyncio.gather(_tail(child.stdout), _tail(child.stderr))
    return said, complaints, await child.wait()


async def _tail(stream: asyncio.StreamReader) -> bytes:
    """The last bytes of what it says."""
    kept = bytearray()
    while piece := await stream.read(16 * 1024):
        kept += piece
        del kept[:-_ANSWER_BYTES_MAX]
    return bytes(kept)
