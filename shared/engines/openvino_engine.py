"""OpenVINO: Intel CPUs, GPUs and NPUs. It reads onnxruntime's QDQ int8 files unchanged.

Its default precision hint rounds to bf16 on newer CPUs (FINDINGS 10), so f32 is asked for: what is
int8 in the graph stays int8. Its telemetry is kept out of the process by hiding the package that
sends it; OpenVINO then uses its own stub.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.engines.batches import BatchCheck, sole_input
from shared.engines.engine import Absent, Available, OpenOptions, Session, TensorInfo
from shared.engines.external_data import refuse_external_data
from shared.errors import Malformed, Unavailable

_SENDER = "openvino_telemetry"
_DTYPES = {
    "u8": "uint8",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f16": "float16",
    "f32": "float32",
}


def load_openvino() -> ModuleType:
    """Import it with its telemetry off. Raises `ImportError`."""
    hidden = _SENDER not in sys.modules
    if hidden:
        sys.modules[_SENDER] = None  # type: ignore[assignment]  # documented: makes imports fail
    try:
        return importlib.import_module("openvino")
    finally:
        if hidden:
            del sys.modules[_SENDER]


class OpenVinoEngine:
    """`device` is one of OpenVINO's own names: CPU, GPU, NPU, or AUTO, which lets it choose."""

    name = "openvino"

    def __init__(self, device: str = "CPU") -> None:
        self._device = device

    def probe(self) -> Available | Absent:
        try:
            module = load_openvino()
            devices = tuple(module.Core().available_devices)
        except (ImportError, OSError, RuntimeError) as error:
            return Absent(_missing(error))
        if not devices:
            return Absent("openvino finds no device here; install its driver for the GPU or NPU")
        return Available(version=_version(module), devices=(*devices, "AUTO"))

    def open(self, artifact: bytes, options: OpenOptions) -> Session:
        try:
            core = load_openvino().Core()
        except (ImportError, OSError, RuntimeError) as error:
            raise Unavailable(_missing(error)) from error
        self._refuse_absent_device(tuple(core.available_devices))
        refuse_external_data(artifact, options.where)
        try:
            model = core.read_model(artifact)
        except Exception as error:
            raise Malformed(
                f"{options.where}: openvino cannot read it: {_one_line(error)}; rebuild the bundle"
            ) from error
        settings = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
        if self._device == "CPU":
            settings["INFERENCE_NUM_THREADS"] = str(options.threads)
        if options.cache_dir is not None:
            settings["CACHE_DIR"] = str(options.cache_dir)
        try:
            compiled = core.compile_model(model, self._device, settings)
        except Exception as error:
            raise Unavailable(
                f"{options.where}: openvino cannot compile it for {self._device}: {_one_line(error)}"
            ) from error
        return _OpenVinoSession(compiled, options.where)

    def _refuse_absent_device(self, devices: tuple[str, ...]) -> None:
        families = {device.split(".")[0] for device in devices} | set(devices)
        if self._device != "AUTO" and self._device not in families:
            raise Unavailable(
                f"openvino finds no {self._device} here (it finds: {', '.join(devices) or 'none'}); "
                "install the device's driver or ask for AUTO"
            )


class _OpenVinoSession:
    def __init__(self, compiled: Any, where: str) -> None:
        self.inputs = tuple(_info(port, where) for port in compiled.inputs)
        self.outputs = tuple(_info(port, where) for port in compiled.outputs)
        self._check = BatchCheck(sole_input(self.inputs, where), where).check
        self._request = compiled.create_infer_request()
        self._where = where

    def run(self, batch: NDArray[np.generic]) -> NDArray[np.float32]:
        if self._request is None:
            raise RuntimeError("the session is closed")
        self._check(batch)
        try:
            self._request.infer([batch], share_inputs=True)
        except Exception as error:
            raise Unavailable(f"{self._where}: openvino failed: {_one_line(error)}") from error
        return np.array(self._request.get_output_tensor(0).data, np.float32)

    def close(self) -> None:
        self._request = None


def _info(port: Any, where: str) -> TensorInfo:
    name = port.get_any_name()
    dtype = _DTYPES.get(port.get_element_type().get_type_name())
    if dtype is None:
        raise Malformed(f"{where}: '{name}' is {port.get_element_type()}; use a plain number type")
    shape = tuple(
        size.get_length() if size.is_static else None for size in port.get_partial_shape()
    )
    return TensorInfo(name, dtype, shape)


def _version(module: ModuleType) -> str:
    return str(module.__version__).split("-")[0]


def _missing(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == "openvino":
        return "the openvino package is not installed; pip install hybridge[openvino]"
    return f"openvino does not start here: {_one_line(error)}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
