"""Which engine and device a model gets, by what the settings ask for and the machine has."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cloud.serving.opening import BestProvider, engines_for, open_best
from cloud.serving.settings import ModelSettings
from shared.bundle.reader import open_bundle
from shared.engines.engine import OpenOptions
from shared.engines.onnxruntime_engine import OnnxRuntimeEngine, load_onnxruntime
from shared.errors import Malformed, Unavailable
from tests.tiny_bundle import sure_image, tiny_logits, tiny_onnx, write_tiny_bundle

CPU, CUDA, TENSORRT = (f"{n}ExecutionProvider" for n in ("CPU", "CUDA", "Tensorrt"))


def onnxruntime_with(*listed: str, starting: tuple[str, ...]) -> Any:
    """The real module on the CPU, claiming other providers: `starting` are those that start."""
    real = load_onnxruntime()
    asked: list[Any] = []

    def session(artifact: bytes, settings: Any, providers: list[Any]) -> Any:
        asked.append(providers)
        names = [each if isinstance(each, str) else each[0] for each in providers]
        on_cpu = real.InferenceSession(artifact, settings, providers=[CPU])
        on_cpu.get_providers = lambda: [name for name in [*names, CPU] if name in starting]
        return on_cpu

    return SimpleNamespace(
        __version__="9", get_available_providers=lambda: [*listed, CPU], asked=asked,
        SessionOptions=real.SessionOptions, InferenceSession=session,
    )  # fmt: skip


def runs(opened: Any) -> bool:
    images = sure_image(1)[None]
    return bool(np.allclose(opened.run(images), tiny_logits(images), atol=1e-5))


def test_auto_takes_the_gpu_where_there_is_one() -> None:
    module = onnxruntime_with(CUDA, starting=(CUDA, CPU))
    assert runs(BestProvider(lambda: module).open(tiny_onnx(), OpenOptions()))
    assert module.asked == [[CUDA]]


def test_auto_falls_back_to_the_cpu_when_the_gpus_libraries_are_missing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    module = onnxruntime_with(CUDA, starting=(CPU,))
    assert runs(BestProvider(lambda: module).open(tiny_onnx(), OpenOptions()))
    assert module.asked == [[CUDA], [CPU]]
    assert "provider_did_not_start" in caplog.text


def test_auto_takes_the_cpu_of_a_wheel_without_a_gpu() -> None:
    module = onnxruntime_with(starting=(CPU,))
    assert runs(BestProvider(lambda: module).open(tiny_onnx(), OpenOptions()))
    assert module.asked == [[CPU]]


def test_a_device_asked_for_by_name_is_not_replaced_in_silence() -> None:
    module = onnxruntime_with(CUDA, starting=(CPU,))
    with pytest.raises(Unavailable, match=r"CUDA provider did not start .*CPUExecutionProvider"):
        OnnxRuntimeEngine(("CUDA",), lambda: module).open(tiny_onnx(), OpenOptions())
    with pytest.raises(Unavailable, match="has no TENSORRT provider here"):
        OnnxRuntimeEngine(("TENSORRT",), lambda: module).open(tiny_onnx(), OpenOptions())


def test_what_tensorrts_provider_compiles_is_kept(tmp_path: Path) -> None:
    module = onnxruntime_with(TENSORRT, starting=(TENSORRT, CPU))
    cache = tmp_path / "engines"
    OnnxRuntimeEngine(("TENSORRT",), lambda: module).open(tiny_onnx(), OpenOptions(cache_dir=cache))
    ((provider, options),) = module.asked[0]
    assert provider == TENSORRT
    assert options == {"trt_engine_cache_enable": "1", "trt_engine_cache_path": str(cache)}
    assert cache.is_dir()


@pytest.mark.parametrize(
    ("engine", "device", "names"),
    [
        ("auto", "auto", ["onnxruntime", "openvino", "tensorrt"]),
        ("onnxruntime", "CPU", ["onnxruntime"]),
        ("openvino", "GPU.1", ["openvino"]),
        ("openvino", "AUTO", ["openvino"]),
        ("tensorrt", "auto", ["tensorrt"]),
    ],
)
def test_an_engine_by_name_is_the_only_one(engine: str, device: str, names: list[str]) -> None:
    settings = ModelSettings.model_validate({"bundle": "x", "engine": engine, "device": device})
    assert [each.name for each in engines_for(settings)] == names


@pytest.mark.parametrize(
    ("engine", "device"),
    [("auto", "CUDA"), ("onnxruntime", "NPU"), ("openvino", "CUDA"), ("tensorrt", "CPU"), ("openvino", "GPU.x")],
)  # fmt: skip
def test_a_device_that_the_engine_does_not_have_is_refused(engine: str, device: str) -> None:
    with pytest.raises(ValueError, match=f"device '{device}' with engine '{engine}'"):
        ModelSettings.model_validate({"bundle": "x", "engine": engine, "device": device})


@pytest.mark.parametrize(
    ("engine", "device", "variant"),
    [("onnxruntime", "CPU", "onnxruntime/fp32"), ("openvino", "CPU", "openvino/fp32")],
)
def test_the_same_bundle_opens_with_each_engine_of_this_machine(
    tmp_path: Path, engine: str, device: str, variant: str
) -> None:
    variants = ("onnxruntime/fp32", "openvino/fp32", "tensorrt/fp32")
    path = write_tiny_bundle(tmp_path / "b", escalates=False, variants=variants)
    settings = ModelSettings.model_validate({"bundle": path, "engine": engine, "device": device})
    opened = open_best(open_bundle(path), settings, cache_dir=tmp_path / "c", size_max=4)
    assert (opened.variant, opened.sizes, opened.lanes) == (variant, (), 1)
    assert runs(opened.session)


def test_a_device_that_is_not_here_is_named_when_it_is_asked_for(tmp_path: Path) -> None:
    path = write_tiny_bundle(tmp_path / "b", escalates=False, variants=("openvino/fp32",))
    settings = ModelSettings(bundle=path, engine="openvino", device="NPU")
    with pytest.raises(Unavailable, match="finds no NPU here"):
        open_best(open_bundle(path), settings, cache_dir=tmp_path / "c", size_max=4)


def test_an_unknown_provider_is_a_mistake_of_the_program() -> None:
    with pytest.raises(Malformed, match="there are CPU, CUDA"):
        OnnxRuntimeEngine(("TPU",))
