"""The process that runs one variant of one bundle and nothing else: it may crash, hang or starve.

Requests on stdin, replies on stdout, one line of JSON each; ends when stdin does.
"""

import contextlib
import gc
import os
import sys
import time
from pathlib import Path
from typing import BinaryIO, assert_never

import numpy as np
from numpy.typing import NDArray

from cloud.registry.evaluation.gradient import Step, stepped
from cloud.registry.evaluation.inputs import Array, Domain, domain_of
from cloud.registry.evaluation.resident import peak_bytes, resident_bytes
from cloud.registry.evaluation.shaking import Strengths, shaken
from cloud.registry.evaluation.subject_messages import (
    REQUESTS,
    Answered,
    AnswerInputs,
    Failed,
    Golden,
    Open,
    Opened,
    Reply,
    Request,
    TakeStep,
    Time,
    Timed,
)
from shared.bundle.reader import Bundle, open_bundle
from shared.engines.engine import Absent, OpenOptions, Session
from shared.engines.known import known_engines
from shared.engines.parity import check_graph
from shared.engines.runtime_versions import missing_runtime
from shared.errors import HybridgeError, Unavailable
from shared.parent_process import end_with_parent

BATCH = 64
_GOLDEN_BATCH = 8  # as a device's probe does it
_WARM_UPS = 5
_RUNS_MIN = 3
_SAMPLES_MAX = 64
_WHY_MAX = 600


class _AbsentEngine(Unavailable):
    """Not the model's fault."""


class Subject:
    """One opened variant. Every method raises what its engine raises."""

    def __init__(self, request: Open) -> None:
        self._bundle: Bundle = open_bundle(Path(request.folder))
        variant = next(v for v in self._bundle.manifest.variants if v.key == request.variant)
        artifact = self._bundle.read(variant.file)
        self._before = resident_bytes()
        engine = next(one for one in known_engines() if one.name == variant.engine)
        found = engine.probe()
        if isinstance(found, Absent):
            raise _AbsentEngine(found.reason)
        if why := missing_runtime(variant.runtime):
            raise _AbsentEngine(why)
        self.engine_version = found.version
        where = f"{variant.file.path} ({variant.key})"
        options = OpenOptions(where=where, threads=request.threads, batch_max=request.batch_max)
        self._session: Session = engine.open(artifact, options)
        check_graph(self._bundle.manifest, self._session, where)

    def golden(self, request: Golden) -> Answered:
        inputs = self._bundle.golden.inputs
        answers = [
            self._session.run(inputs[start : start + _GOLDEN_BATCH])
            for start in range(0, len(inputs), _GOLDEN_BATCH)
        ]
        _save(request.out, np.concatenate(answers))
        peak = peak_bytes()
        if peak is None or self._before is None:
            return Answered()
        return Answered(memory_bytes=max(0, peak - self._before))

    def answer(self, request: AnswerInputs) -> Answered:
        inputs = _load(request.inputs)
        domain = Domain(
            inputs.dtype.name, request.low, request.high, domain_of(inputs[:1]).image_axes
        )
        strengths = Strengths(request.noise, request.blur, request.brightness)
        answers = []
        for start in range(0, len(inputs), BATCH):
            rows: Array = np.ascontiguousarray(inputs[start : start + BATCH])
            if request.kind is not None:
                rows = shaken(rows, start, request.kind, strengths, domain, request.seed)
            answers.append(self._session.run(rows))
        _save(request.out, np.concatenate(answers))
        return Answered()

    def step(self, request: TakeStep) -> Answered:
        inputs = np.ascontiguousarray(_load(request.inputs))
        domain = Domain(inputs.dtype.name, request.low, request.high, None)
        moved, astray = stepped(
            inputs,
            np.array(request.labels, np.int64),
            Step(request.size, request.directions, request.seed),
            domain,
            self._session.run,
        )
        _save(request.out, np.stack([self._run_all(moved), self._run_all(astray)]))
        return Answered()

    def _run_all(self, rows: Array) -> NDArray[np.float32]:
        return np.concatenate(
            [self._session.run(rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]
        )

    def time(self, request: Time) -> Timed:
        inputs = _load(request.inputs)
        batches = [
            np.ascontiguousarray(inputs[np.arange(at, at + request.batch) % len(inputs)])
            for at in range(min(_SAMPLES_MAX, len(inputs)))
        ]
        run = self._session.run
        for at in range(_WARM_UPS):
            run(batches[at % len(batches)])
        taken: list[float] = []
        gc.disable()
        ends = time.perf_counter() + request.s_max
        for at in range(request.runs):
            batch = batches[at % len(batches)]
            start = time.perf_counter()
            run(batch)
            end = time.perf_counter()
            taken.append((end - start) * 1e3)
            if end > ends and len(taken) >= _RUNS_MIN:
                break
        gc.enable()
        return Timed(ms=tuple(taken))


def _load(path: str) -> Array:
    """Our own evaluator wrote it; mapped, so that many rows cost no memory here."""
    array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def _save(path: str, answers: NDArray[np.float32]) -> None:
    np.save(path, answers, allow_pickle=False)


def _limit(request: Open) -> None:
    """Ends with its parent; steps back for others; starves alone."""
    end_with_parent(os.getppid())
    os.nice(request.nice)
    if sys.platform == "linux":
        import resource  # noqa: PLC0415 - POSIX alone has it

        from cloud.processes.limits import bound  # noqa: PLC0415

        bound(resource.RLIMIT_DATA, request.memory_bytes_max)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000", "ascii")


def _reply(subject: Subject | None, request: Request) -> tuple[Subject | None, Reply]:
    if isinstance(request, Open):
        _limit(request)
        subject = Subject(request)
        return subject, Opened(engine_version=subject.engine_version)
    assert subject is not None, "open comes first"
    match request:
        case Golden():
            return subject, subject.golden(request)
        case AnswerInputs():
            return subject, subject.answer(request)
        case TakeStep():
            return subject, subject.step(request)
        case Time():
            return subject, subject.time(request)
        case _:
            assert_never(request)


def serve(requests: BinaryIO, replies: BinaryIO) -> None:
    """Until the requests end. An error is a reply; what a crash leaves, the parent sees."""
    subject: Subject | None = None
    for line in requests:
        reply: Reply
        try:
            subject, reply = _reply(subject, REQUESTS.validate_json(line))
        except _AbsentEngine as error:
            reply = Failed(absent=True, why=str(error)[:_WHY_MAX])
        except HybridgeError as error:
            reply = Failed(absent=False, why=str(error)[:_WHY_MAX])
        except MemoryError:
            reply = Failed(absent=False, why="it ran out of the memory that it may use")
        replies.write(reply.model_dump_json().encode() + b"\n")
        replies.flush()


def main() -> None:
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a runtime prints must not get between
    with replies:
        serve(sys.stdin.buffer, replies)


if __name__ == "__main__":
    main()
