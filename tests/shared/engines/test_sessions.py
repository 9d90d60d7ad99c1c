"""One contract for the engines that run here, each on the same graphs."""

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from shared.engines.engine import Available, Engine, OpenOptions, TensorInfo
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine
from shared.engines.openvino_engine import OpenVinoEngine
from shared.errors import Malformed, Unavailable
from tests.tiny_bundle import sure_image, tiny_logits, tiny_onnx

ENGINES: tuple[Engine, ...] = (OnnxRuntimeEngine(), OpenVinoEngine(), OpenVinoEngine("AUTO"))


@pytest.fixture(params=ENGINES, ids=["onnxruntime", "openvino", "openvino-auto"])
def engine(request: pytest.FixtureRequest) -> Engine:
    found: Engine = request.param
    assert isinstance(found.probe(), Available), f"{found.name} is locked; make setup installs it"
    return found


def float_onnx(shape: tuple[int | str, ...] = ("n", 2), inputs: int = 1) -> bytes:
    """Adds its float inputs; as odd as the caller wants."""
    names = [f"x{number}" for number in range(inputs)]
    graph = helper.make_graph(
        [helper.make_node("Sum", names, ["y"])],
        "sum",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def test_it_describes_the_graph(engine: Engine) -> None:
    session = engine.open(tiny_onnx(), OpenOptions())
    assert session.inputs == (TensorInfo("image", "uint8", (None, 4, 4)),)
    assert session.outputs == (TensorInfo("logits", "float32", (None, 3)),)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_any_batch_size(engine: Engine, size: int) -> None:
    session = engine.open(tiny_onnx(), OpenOptions())
    images = np.random.default_rng(size).integers(0, 256, (size, 4, 4), np.uint8)
    np.testing.assert_allclose(session.run(images), tiny_logits(images), atol=1e-4)


def test_the_answer_is_the_callers_own(engine: Engine) -> None:
    session = engine.open(tiny_onnx(), OpenOptions())
    first = session.run(sure_image(0)[None])
    kept = first.copy()
    session.run(sure_image(1)[None])
    np.testing.assert_array_equal(first, kept)
    first[:] = 0
    assert session.run(sure_image(1)[None]).argmax() == 1


def test_a_strided_batch(engine: Engine) -> None:
    session = engine.open(tiny_onnx(), OpenOptions())
    images = np.random.default_rng(1).integers(0, 256, (6, 4, 4), np.uint8)
    np.testing.assert_allclose(session.run(images[::2]), tiny_logits(images[::2]), atol=1e-4)


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (np.zeros((1, 4, 4), np.float32), "got float32[1, 4, 4]; expected uint8[N, 4, 4]"),
        (np.zeros((1, 4, 5), np.uint8), "got uint8[1, 4, 5]; expected uint8[N, 4, 4]"),
        (np.zeros((4, 4), np.uint8), "got uint8[4, 4]; expected uint8[N, 4, 4]"),
        (np.zeros((), np.uint8), "got uint8[]; expected uint8[N, 4, 4]"),
        (np.zeros((0, 4, 4), np.uint8), "got an empty batch"),
    ],
)
def test_a_batch_that_does_not_fit(engine: Engine, batch: NDArray[np.generic], said: str) -> None:
    session = engine.open(tiny_onnx(), OpenOptions(where="model.onnx"))
    with pytest.raises(Malformed) as refusal:
        session.run(batch)
    assert str(refusal.value).startswith("model.onnx: input 'image'")
    assert said in str(refusal.value)
    assert session.run(sure_image(2)[None]).argmax() == 2  # nothing else is disturbed


def test_a_graph_of_plain_numbers_needs_its_batch_axis(engine: Engine) -> None:
    session = engine.open(float_onnx(shape=("n",)), OpenOptions())
    assert session.run(np.ones(3, np.float32)).shape == (3,)
    with pytest.raises(Malformed, match=r"got float32\[\]; expected float32\[N\]"):
        session.run(np.array(1, np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_floats_must_be_finite(engine: Engine, value: float) -> None:
    session = engine.open(float_onnx(), OpenOptions())
    assert session.run(np.ones((1, 2), np.float32)).shape == (1, 2)
    with pytest.raises(Malformed, match="'x0' holds NaN or infinity"):
        session.run(np.array([[1, value]], np.float32))


def test_junk_is_no_graph(engine: Engine) -> None:
    with pytest.raises(Malformed, match=r"^bad\.onnx: .*rebuild the bundle$"):
        engine.open(b"junk" * 100, OpenOptions(where="bad.onnx"))


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        (float_onnx(inputs=2), "has 2 inputs"),
        (float_onnx(shape=(1, 2)), "input 'x0' is float32[1, 2]; export it with a free batch"),
        (float_onnx(shape=("n", "m")), "input 'x0' is float32[N, N]; export it with a free batch"),
    ],
)
def test_a_graph_of_another_form(engine: Engine, graph: bytes, said: str) -> None:
    with pytest.raises(Malformed) as refusal:
        engine.open(graph, OpenOptions())
    assert said in str(refusal.value)


def test_a_closed_session_stays_closed(engine: Engine) -> None:
    session = engine.open(tiny_onnx(), OpenOptions())
    session.close()
    with pytest.raises((RuntimeError, Unavailable), match="closed"):
        session.run(sure_image(0)[None])


def test_a_device_that_is_not_here() -> None:
    with pytest.raises(Unavailable, match="openvino finds no NPU here"):
        OpenVinoEngine("NPU").open(tiny_onnx(), OpenOptions())
    with pytest.raises(Unavailable, match="onnxruntime has no COREML provider here"):
        OnnxRuntimeEngine(("COREML", "CPU")).open(tiny_onnx(), OpenOptions())


def test_a_device_that_does_not_exist() -> None:
    with pytest.raises(Malformed, match="onnxruntime device 'ABACUS'; there are CPU, CUDA"):
        OnnxRuntimeEngine(("ABACUS",))
