"""A model's process may crash, hang, starve or lie: each is a finding, in words."""

import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cloud.registry.evaluation import subject as subject_module
from cloud.registry.evaluation.subject import EngineAbsent, ModelBroke, Subject
from cloud.registry.evaluation.subject_messages import Answered, Golden, Open, Opened, Time, Timed
from tests.cloud.registry.evaluation.odd_models import hanging, starving, write_odd
from tests.tiny_bundle import write_tiny_bundle


def opening(folder: Path, variant: str = "onnxruntime/fp32", memory: int = 2**32) -> Open:
    return Open(
        folder=str(folder), variant=variant, threads=1, batch_max=64, nice=0,
        memory_bytes_max=memory,
    )  # fmt: skip


def asked(folder: Path, *requests: tuple, limit_s: float = 30.0, memory: int = 2**32) -> list:
    async def run() -> list:
        async with Subject.started(limit_s) as subject:
            await subject.open(opening(folder, memory=memory))
            return [await subject.ask(request, kind) for request, kind in requests]

    return asyncio.run(run())


def test_a_variant_answers_and_is_timed(tmp_path):
    folder = write_tiny_bundle(tmp_path / "b")
    out, data = str(tmp_path / "out.npy"), str(tmp_path / "in.npy")
    np.save(data, np.zeros((3, 4, 4), np.uint8))
    timing = Time(inputs=data, batch=2, runs=7, s_max=5)
    answered, timed = asked(folder, (Golden(out=out), Answered), (timing, Timed))
    assert np.load(out).shape == (16, 3)
    assert answered.memory_bytes is None or answered.memory_bytes > 0
    assert len(timed.ms) == 7


def test_a_slow_model_is_timed_three_times_at_least(tmp_path):
    folder = write_tiny_bundle(tmp_path / "b")
    data = str(tmp_path / "in.npy")
    np.save(data, np.zeros((1, 4, 4), np.uint8))
    (timed,) = asked(folder, (Time(inputs=data, batch=1, runs=50, s_max=0.0), Timed))
    assert len(timed.ms) == 3


def test_a_crash_is_a_finding_with_the_signal_s_name(tmp_path):
    folder = write_odd(tmp_path / "b", hanging())

    async def run() -> None:
        async with Subject.started(30.0) as subject:
            await subject.open(opening(folder))
            asking = asyncio.create_task(subject.ask(Golden(out=str(tmp_path / "o")), Answered))
            await asyncio.sleep(0)  # the request is written
            os.kill(subject.pid, signal.SIGSEGV)
            await asking

    with pytest.raises(ModelBroke, match="died of SIGSEGV while answering the golden samples"):
        asyncio.run(run())


def test_a_hang_is_ended_at_the_time_limit(tmp_path):
    folder = write_odd(tmp_path / "b", hanging())
    with pytest.raises(ModelBroke, match=r"not done after 3 s, still \w+ing the"):
        asked(folder, (Golden(out=str(tmp_path / "o")), Answered), limit_s=3)


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_out_of_memory_is_a_finding_and_takes_nobody_along(tmp_path):
    folder = write_odd(tmp_path / "b", starving())
    with pytest.raises(ModelBroke, match=r"memory|alloc|died"):
        asked(folder, (Golden(out=str(tmp_path / "o")), Answered), memory=2**30)


def test_an_absent_engine_is_not_the_model_s_fault(tmp_path):
    folder = write_tiny_bundle(tmp_path / "b", variants=("tensorrt/fp32",))

    async def run() -> None:
        async with Subject.started(30.0) as subject:
            await subject.open(opening(folder, "tensorrt/fp32"))

    with pytest.raises(EngineAbsent, match="tensorrt"):
        asyncio.run(run())


def test_a_graph_that_is_not_as_the_bundle_says_is_a_finding(tmp_path):
    folder = write_odd(
        tmp_path / "b", hanging(), inputs=[{"name": "photo", "dtype": "uint8", "shape": [4, 4]}]
    )
    with pytest.raises(ModelBroke, match="bundle says"):
        asked(folder)


@pytest.mark.parametrize("said", ["print('nonsense', flush=True); input()", "pass"])
def test_nonsense_and_silence_are_findings(monkeypatch, tmp_path, said):
    monkeypatch.setattr(subject_module, "_PROGRAM", said)
    with pytest.raises(ModelBroke, match=r"nonsense|ended with code 0"):
        asked(write_tiny_bundle(tmp_path / "b"))


def test_a_line_without_end_is_a_finding(monkeypatch, tmp_path):
    program = "import sys; sys.stdout.write('x' * 2**24); sys.stdout.flush(); input()"
    monkeypatch.setattr(subject_module, "_PROGRAM", program)
    with pytest.raises(ModelBroke, match="said over 8388608 bytes at once while opening"):
        asked(write_tiny_bundle(tmp_path / "b"))


def test_what_it_said_last_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(subject_module, "_PROGRAM", "raise SystemExit('no room for me')")
    with pytest.raises(ModelBroke, match="code 1 while opening the model; it said last: no room"):
        asked(write_tiny_bundle(tmp_path / "b"))


def test_no_secret_of_ours_reaches_it(monkeypatch, tmp_path):
    monkeypatch.setenv("HYBRIDGE_KEY_PASSWORD", "hunter2")
    program = "import os, sys; sys.exit(f\"there: {'HYBRIDGE_KEY_PASSWORD' in os.environ}\")"
    monkeypatch.setattr(subject_module, "_PROGRAM", program)
    with pytest.raises(ModelBroke, match="there: False"):
        asked(write_tiny_bundle(tmp_path / "b"))


def test_it_is_gone_when_the_block_ends(tmp_path):
    folder = write_odd(tmp_path / "b", hanging())

    async def run() -> int:
        async with Subject.started(30.0) as subject:
            assert isinstance(await subject.open(opening(folder)), Opened)
            asking = asyncio.create_task(subject.ask(Golden(out=str(tmp_path / "o")), Answered))
            await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait({asking})
        return subject.pid

    with pytest.raises(ProcessLookupError):
        os.kill(asyncio.run(run()), 0)


PARENT = """
import asyncio, sys
from cloud.registry.evaluation.subject import Subject
from cloud.registry.evaluation.subject_messages import Answered, Golden
from pathlib import Path
from tests.cloud.registry.evaluation.test_subject import opening

async def run():
    async with Subject.started(600) as subject:
        await subject.open(opening(Path(sys.argv[1])))
        print(subject.pid, flush=True)
        await subject.ask(Golden(out=sys.argv[1] + "/o"), Answered)

asyncio.run(run())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it is asked of the kernel")
def test_a_hanging_model_does_not_outlive_an_evaluator_that_is_killed(tmp_path):
    folder = write_odd(tmp_path / "b", hanging())
    command = [sys.executable, "-c", PARENT, str(folder)]
    root = Path(__file__).parents[4]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root) as parent:
        gone = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.kill()
            assert select.select([gone], [], [], 30)[0]
        finally:
            os.close(gone)
