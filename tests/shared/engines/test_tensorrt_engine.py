"""Everything up to the driver. That a real GPU answers the same is not tested here."""

from pathlib import Path

import numpy as np
import pytest

from shared.engines.engine import Absent, Available, OpenOptions, TensorInfo
from shared.engines.tensorrt_engine import TensorRtEngine, load_tensorrt
from shared.errors import Malformed, TooLarge, Unavailable
from tests.shared.engines.fake_tensorrt import FakeDevice, FakeTensorRt
from tests.tiny_bundle import tiny_logits


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def trt(device: FakeDevice) -> FakeTensorRt:
    return FakeTensorRt(device)


@pytest.fixture
def engine(trt: FakeTensorRt, device: FakeDevice) -> TensorRtEngine:
    return TensorRtEngine(load=lambda: trt, device=lambda: device)


def test_available(engine: TensorRtEngine, device: FakeDevice) -> None:
    assert engine.probe() == Available("11.4.0", ("Fake GPU 9000",))
    assert device.closed


def test_without_the_package(device: FakeDevice) -> None:
    def missing() -> None:
        raise Unavailable("the tensorrt package is not installed")

    found = TensorRtEngine(load=missing, device=lambda: device).probe()
    assert found == Absent("the tensorrt package is not installed")


def test_without_a_gpu(trt: FakeTensorRt) -> None:
    def no_gpu() -> FakeDevice:
        raise Unavailable("the NVIDIA driver finds no GPU; check `nvidia-smi`")

    engine = TensorRtEngine(load=lambda: trt, device=no_gpu)
    assert engine.probe() == Absent("the NVIDIA driver finds no GPU; check `nvidia-smi`")
    with pytest.raises(Unavailable, match="finds no GPU"):
        engine.open(b"onnx", OpenOptions())


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModuleNotFoundError(name="tensorrt"), "the tensorrt package is not installed"),
        (ModuleNotFoundError("No module named 'tensorrt_libs'", name="tensorrt_libs"), "_libs"),
        (ImportError("libnvinfer.so.10:\n cannot open"), "libnvinfer.so.10: cannot open"),
        (FileNotFoundError("nvinfer_10.dll"), "nvinfer_10.dll"),
    ],
)
def test_an_import_that_fails_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def failing(name: str) -> None:
        raise error

    monkeypatch.setattr("importlib.import_module", failing)
    with pytest.raises(Unavailable) as refusal:
        load_tensorrt()
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_it_compiles_strongly_typed_for_a_free_batch_axis(
    engine: TensorRtEngine, trt: FakeTensorRt
) -> None:
    session = engine.open(b"onnx", OpenOptions(batch_max=16))
    assert trt.flags == 1 << 1
    assert trt.profiles == [("image", (1, 4, 4), (8, 4, 4), (16, 4, 4))]
    assert session.inputs == (TensorInfo("image", "uint8", (None, 4, 4)),)
    assert session.outputs == (TensorInfo("logits", "float32", (None, 3)),)


def test_it_runs_batches_and_frees_what_it_took(engine: TensorRtEngine, device: FakeDevice) -> None:
    session = engine.open(b"onnx", OpenOptions(batch_max=8))
    images = np.random.default_rng(0).integers(0, 256, (16, 4, 4), np.uint8)
    for batch in (images[:1], images[:8], images[::2]):
        np.testing.assert_allclose(session.run(batch), tiny_logits(batch), atol=1e-5)
    assert device.entered == 3
    assert sorted(len(block) for block in device.memory.values()) == [8 * 3 * 4, 8 * 16]
    session.close()
    assert device.closed
    assert len(device.freed) == 2


def test_a_batch_over_the_profile(engine: TensorRtEngine) -> None:
    session = engine.open(b"onnx", OpenOptions(where="m.onnx", batch_max=4))
    with pytest.raises(TooLarge, match=r"m\.onnx: a batch of 5; .* up to 4"):
        session.run(np.zeros((5, 4, 4), np.uint8))


def test_a_wrong_batch(engine: TensorRtEngine) -> None:
    session = engine.open(b"onnx", OpenOptions(where="m.onnx"))
    with pytest.raises(Malformed, match=r"m\.onnx: input 'image' got float32\[1, 4, 4\]"):
        session.run(np.zeros((1, 4, 4), np.float32))


def test_compiled_once_for_the_same_artifact(
    engine: TensorRtEngine, trt: FakeTensorRt, device: FakeDevice, tmp_path: Path
) -> None:
    options = OpenOptions(cache_dir=tmp_path / "cache")
    engine.open(b"onnx", options).close()
    engine.open(b"onnx", options).close()
    assert trt.compiled == 1
    engine.open(b"another", options).close()
    device.name = "Another GPU"
    engine.open(b"onnx", options).close()
    assert trt.compiled == 3


def test_a_damaged_cache_is_compiled_anew(
    engine: TensorRtEngine, trt: FakeTensorRt, tmp_path: Path
) -> None:
    engine.open(b"onnx", OpenOptions(cache_dir=tmp_path)).close()
    (cached,) = tmp_path.iterdir()
    cached.write_bytes(cached.read_bytes()[:-1])
    engine.open(b"onnx", OpenOptions(cache_dir=tmp_path)).close()
    assert trt.compiled == 2


def test_a_graph_that_does_not_parse(
    engine: TensorRtEngine, trt: FakeTensorRt, device: FakeDevice
) -> None:
    trt.parses = False
    with pytest.raises(Malformed, match=r"^m\.onnx: .*no importer for op NoSuchOp; rebuild"):
        engine.open(b"onnx", OpenOptions(where="m.onnx"))
    assert device.closed


def test_a_graph_that_does_not_compile(
    engine: TensorRtEngine, trt: FakeTensorRt, device: FakeDevice
) -> None:
    trt.builds = False
    with pytest.raises(Malformed, match="cannot compile it for this GPU"):
        engine.open(b"onnx", OpenOptions())
    assert device.closed


def test_too_little_memory_frees_what_was_taken(engine: TensorRtEngine, device: FakeDevice) -> None:
    device.room = 32 * 16  # the input's buffer, and nothing more
    with pytest.raises(Unavailable, match="out of memory"):
        engine.open(b"onnx", OpenOptions())
    assert len(device.freed) == 1
    assert device.closed


def test_a_run_that_fails(engine: TensorRtEngine, trt: FakeTensorRt) -> None:
    session = engine.open(b"onnx", OpenOptions())
    trt.runs = False
    with pytest.raises(Unavailable, match="tensorrt failed to run"):
        session.run(np.zeros((1, 4, 4), np.uint8))
