"""Real child processes: a candidate that breaks one hurts nobody else."""

import asyncio
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge.updates.probe import PROGRAM, Bounds, Probed, Unfit, probe
from edge.updates.probe_child import golden_failed
from shared.bundle.reader import open_bundle, parse_manifest
from shared.engines.parity import Parity
from shared.engines.ranking import Verdict
from tests.tiny_bundle import SIDE, file_of, rewrite_manifest, write_tiny_bundle

ROOT = Path(__file__).parents[3]
BOUNDS = Bounds(s_max=60.0, latency_ms_max=500.0, slower_max=4.0)


@pytest.fixture
def active(tmp_path: Path) -> Path:
    return write_tiny_bundle(tmp_path / "active")


def probed(
    candidate: Path,
    active: Path,
    bounds: Bounds = BOUNDS,
    program: str = PROGRAM,
    engine: str = "auto",
) -> Probed:
    return asyncio.run(
        probe(
            candidate, active, engine=engine, active_variant="onnxruntime/fp32",
            cache_dir=active.parent, bounds=bounds, program=program,
        )
    )  # fmt: skip


def with_graph(folder: Path, graph: bytes, **changes: Any) -> Path:
    """The tiny bundle with another graph in it, properly listed."""
    write_tiny_bundle(folder, **changes)
    (folder / "variants/model.onnx").write_bytes(graph)
    manifest = parse_manifest((folder / "manifest.json").read_bytes(), "it")
    (variant,) = manifest.variants
    listed = file_of("variants/model.onnx", graph)
    changed = variant.model_copy(update={"file": listed})
    rewrite_manifest(folder, manifest.model_copy(update={"variants": (changed,)}))
    return folder


def graph_of(*, nan: bool = False, rounds: int = 0, side: int = 400) -> bytes:
    """The tiny model; with 0 / 0 added to its answer, or `rounds` big multiplications before it."""
    labels, pixels = 3, SIDE * SIDE
    owner = np.arange(pixels) % labels
    member = (owner[:, None] == np.arange(labels)).astype(np.float32)
    constants = {
        "to_unit": np.float32(1 / 255), "flat": np.array([-1, pixels], np.int64),
        "weights": np.asarray(12.0 * member / member.sum(axis=0), np.float32),
        "zero": np.float32(0), "big": np.zeros((side, side), np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("Cast", ["image"], ["grey"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["grey", "to_unit"], ["unit"]),
        helper.make_node("Reshape", ["unit", "flat"], ["pixels"]),
        helper.make_node("MatMul", ["pixels", "weights"], ["plain"]),
        helper.make_node("ReduceSum", ["plain"], ["sum"], keepdims=0),
    ]
    last = "plain"
    if nan:
        nodes.append(helper.make_node("Mul", ["sum", "zero"], ["nothing"]))
        nodes.append(helper.make_node("Div", ["nothing", "nothing"], ["nan"]))
        nodes.append(helper.make_node("Add", ["plain", "nan"], ["spoilt"]))
        last = "spoilt"
    if rounds:  # of what depends on the input, so that nothing is folded beforehand
        nodes.append(helper.make_node("Mul", ["big", "sum"], ["m0"]))
        nodes.extend(
            helper.make_node("MatMul", [f"m{number}", "big"], [f"m{number + 1}"])
            for number in range(rounds)
        )
        nodes.append(helper.make_node("ReduceSum", [f"m{rounds}"], ["none"], keepdims=0))
        nodes.append(helper.make_node("Add", [last, "none"], ["slow"]))
        last = "slow"
    nodes.append(helper.make_node("Identity", [last], ["logits"]))
    graph = helper.make_graph(
        nodes, "tiny",
        [helper.make_tensor_value_info("image", TensorProto.UINT8, ["n", SIDE, SIDE])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", labels])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString())


def test_a_good_candidate_passes_with_its_figures(tmp_path: Path, active: Path) -> None:
    found = probed(with_graph(tmp_path / "new", graph_of()), active)
    assert found.variant == "onnxruntime/fp32"
    assert "active" in found.why


def test_a_real_model_passes_beside_itself(active: Path) -> None:
    edge = Path(__file__).parents[3] / "models/fashion-edge"
    key = open_bundle(edge).manifest.variants[0].key
    found = asyncio.run(
        probe(edge, edge, engine=key, active_variant=key, cache_dir=active.parent, bounds=BOUNDS)
    )
    assert found.variant == key


def test_answers_that_are_not_numbers_are_rejected(tmp_path: Path, active: Path) -> None:
    with pytest.raises(Unfit, match="inf") as caught:
        probed(with_graph(tmp_path / "new", graph_of(nan=True)), active)
    assert caught.value.golden


def test_answers_that_differ_from_the_reference_are_rejected(tmp_path: Path, active: Path) -> None:
    other = (write_tiny_bundle(tmp_path / "other", shift=1) / "variants/model.onnx").read_bytes()
    with pytest.raises(Unfit, match="differ from the reference") as caught:
        probed(with_graph(tmp_path / "new", other), active)
    assert caught.value.golden


def test_a_candidate_five_times_as_slow_is_rejected(tmp_path: Path, active: Path) -> None:
    slow = with_graph(tmp_path / "new", graph_of(rounds=3))
    with pytest.raises(Unfit, match="times the active model's"):
        probed(slow, active)


def test_a_graph_that_is_none_is_rejected(tmp_path: Path, active: Path) -> None:
    with pytest.raises(Unfit, match="no variant can run here") as caught:
        probed(with_graph(tmp_path / "new", b"junk"), active)
    assert not caught.value.golden  # it never came to them


def test_an_engine_that_the_candidate_has_no_variant_for_is_a_rejection(
    tmp_path: Path, active: Path
) -> None:
    with pytest.raises(Unfit, match="openvino"):
        probed(with_graph(tmp_path / "new", graph_of()), active, engine="openvino")


@pytest.mark.parametrize(
    ("program", "words", "probe_s_max"),
    [
        ("import os; os.kill(os.getpid(), 11)", "SIGSEGV", 60.0),
        (
            "import sys; print('the engine said so', file=sys.stderr); sys.exit(3)",
            "engine said so", 60.0,
        ),
        ("print('NaN')", "something else", 60.0),
        ("print('{\"latency_ms\": -1}')", "something else", 60.0),
        ("import sys\nwhile sys.stdout.write('x' * 65536): pass", "hangs", 1.5),
    ],
)  # fmt: skip
def test_a_candidate_that_takes_its_process_down_is_rejected(
    active: Path, program: str, words: str, probe_s_max: float
) -> None:
    with pytest.raises(Unfit, match=words):
        probed(active, active, Bounds(probe_s_max, 100.0, 3.0), program)


def test_a_candidate_that_hangs_is_ended(active: Path) -> None:
    with pytest.raises(Unfit, match="hangs"):
        probed(active, active, Bounds(0.3, 100.0, 3.0), "import time; time.sleep(600)")


def test_a_probe_that_is_given_up_ends_with_all_that_it_started(
    active: Path, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    program = (
        "import subprocess, sys, time, pathlib\n"
        "c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"new = pathlib.Path({str(pid_file)!r} + '.new')\n"
        "new.write_text(str(c.pid))\n"
        f"new.rename({str(pid_file)!r})\n"
        "time.sleep(600)"
    )

    async def main() -> None:
        asking = probe(
            active, active, engine="auto", active_variant="onnxruntime/fp32", cache_dir=tmp_path,
            bounds=BOUNDS, program=program,
        )  # fmt: skip
        task = asyncio.ensure_future(asking)
        async with asyncio.timeout(30):
            while not there(pid_file):  # noqa: ASYNC110  of another process
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(main())
    ends = time.monotonic() + 30
    while runs(pid_file.read_text()):  # a busy machine takes a moment to end what was killed
        assert time.monotonic() < ends
        time.sleep(0.01)


def runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def there(path: Path) -> bool:
    return path.exists()


def test_a_probe_ends_with_the_agent_that_was_killed(tmp_path: Path) -> None:
    hangs = "import edge.updates.probe_child as p, time; p._probe = lambda _: time.sleep(600); "
    hangs += f"p._step_back = lambda: open({str(tmp_path / 'fifo')!r}, 'w').write('here'); p.main()"
    agent = f"""
import asyncio
from pathlib import Path
from edge.updates.probe import Bounds, probe
asyncio.run(probe(Path("a"), Path("b"), engine="auto", active_variant="", cache_dir=Path("c"),
                  bounds=Bounds(600, 25, 3), program={hangs!r}))
"""
    os.mkfifo(tmp_path / "fifo")
    with subprocess.Popen([sys.executable, "-c", agent], cwd=ROOT) as it:
        assert (tmp_path / "fifo").read_text() == "here"
        (child,) = Path(f"/proc/{it.pid}/task/{it.pid}/children").read_text().split()
        ended = os.pidfd_open(int(child))
        it.kill()
    try:
        assert select.select([ended], [], [], 30)[0], "the probe lives on"
    finally:
        os.close(ended)


def test_a_variant_that_passed_its_golden_samples_and_broke_later_did_not_fail_them() -> None:
    (variant, *_) = open_bundle(ROOT / "models/fashion-edge").manifest.variants
    passed, differs = (Parity(far, 0.1, 1.0, 0.9) for far in (0.05, 0.2))

    def verdict(parity: Parity | None) -> Verdict:
        return Verdict(variant, chosen=False, reason="broke", parity=parity)

    assert not golden_failed([verdict(passed), verdict(None)])
    assert golden_failed([verdict(passed), verdict(differs)])
