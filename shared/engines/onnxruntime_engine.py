"""onnxruntime: the CPU, and whatever providers its wheel brings (CUDA, TensorRT, QNN, CoreML).

Its Linux wheel uploads telemetry unless told otherwise before the import (FINDINGS 8), so nothing
else in this code base imports it: everyone goes through `load_onnxruntime`.

Plain `run` against IOBinding with both buffers bound, int8 CNN of 53k parameters, batch 1, one
thread: 59 us against 57 us. Not worth a second path that copies in and out.
"""

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.engines.batches import BatchCheck, sole_input
from shared.engines.engine import Absent, Available, OpenOptions, Session, TensorInfo
from shared.engines.external_data import refuse_external_data
from shared.errors import Malformed, Unavailable

_PROVIDERS = {
    "CPU": "CPUExecutionProvider",
    "CUDA": "CUDAExecutionProvider",
    "TENSORRT": "TensorrtExecutionProvider",
    "QNN": "QNNExecutionProvider",
    "COREML": "CoreMLExecutionProvider",
}
_DTYPES = {
    "tensor(uint8)": "uint8",
    "tensor(int8)": "int8",
    "tensor(int16)": "int16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
    "tensor(float16)": "float16",
    "tensor(float)": "float32",
}
_ERRORS_ONLY = 3


def load_onnxruntime() -> ModuleType:
    """Import it with its telemetry off. Raises `ImportError`."""
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    module = importlib.import_module("onnxruntime")
    module.set_default_logger_severity(_ERRORS_ONLY)
    return module


class OnnxRuntimeEngine:
    """`devices` are asked for by name, best first; the CPU is the last resort of none."""

    name = "onnxruntime"

    def __init__(
        self,
        devices: tuple[str, ...] = ("CPU",),
        load: Callable[[], ModuleType] = load_onnxruntime,
    ) -> None:
        if unknown := sorted(set(devices) - set(_PROVIDERS)):
            raise Malformed(f"onnxruntime device {unknown[0]!r}; there are {', '.join(_PROVIDERS)}")
        self._devices, self._load = devices, load

    def probe(self) -> Available | Absent:
        try:
            module = self._load()
        except (ImportError, OSError) as error:
            return Absent(_missing(error))
        listed = module.get_available_providers()
        return Available(
            version=str(module.__version__),
            devices=tuple(name for name, provider in _PROVIDERS.items() if provider in listed),
        )

    def open(self, artifact: bytes, options: OpenOptions) -> Session:
        try:
            module = self._load()
        except (ImportError, OSError) as error:
            raise Unavailable(_missing(error)) from error
        listed = module.get_available_providers()
        for device in self._devices:
            if _PROVIDERS[device] not in listed:
                raise Unavailable(
                    f"onnxruntime has no {device} provider here; install the onnxruntime package "
                    "that brings it, or ask for CPU"
                )
        refuse_external_data(artifact, options.where)
        settings = module.SessionOptions()
        settings.intra_op_num_threads = options.threads
        settings.inter_op_num_threads = 1
        settings.log_severity_level = _ERRORS_ONLY
        try:
            session = module.InferenceSession(
                artifact,
                settings,
                providers=[_provider(device, options.cache_dir) for device in self._devices],
            )
        except Exception as error:
            raise Malformed(
                f"{options.where}: onnxruntime cannot load it: {_one_line(error)}; rebuild the bundle"
            ) from error
        self._refuse_fallback(session.get_providers(), options.where)
        return _OnnxRuntimeSession(session, options.where)

    def _refuse_fallback(self, started: list[str], where: str) -> None:
        """A provider whose libraries are missing leaves its work to the CPU, with a log line."""
        for device in self._devices:
            if _PROVIDERS[device] not in started:
                raise Unavailable(
                    f"{where}: onnxruntime's {device} provider did not start (it would run on "
                    f"{', '.join(started) or 'nothing'}); install the libraries that the provider "
                    "needs, or ask for CPU"
                )


class _OnnxRuntimeSession:
    def __init__(self, session: Any, where: str) -> None:
        self.inputs = tuple(_info(tensor, where) for tensor in session.get_inputs())
        self.outputs = tuple(_info(tensor, where) for tensor in session.get_outputs())
        tensor = sole_input(self.inputs, where)
        self._input = tensor.name
        self._outputs = [self.outputs[0].name]
        self._check = BatchCheck(tensor, where).check
        self._run = session.run
        self._where = where

    def run(self, batch: NDArray[np.generic]) -> NDArray[np.float32]:
        self._check(batch)
        try:
            answer: NDArray[np.float32] = self._run(self._outputs, {self._input: batch})[0]
        except Exception as error:
            raise Unavailable(f"{self._where}: onnxruntime failed: {_one_line(error)}") from error
        return answer if answer.dtype == np.float32 else answer.astype(np.float32)

    def close(self) -> None:
        self._run = _closed


def _provider(device: str, cache_dir: Path | None) -> object:
    """TensorRT's compiles for minutes, so it keeps what it compiled where it may."""
    if device != "TENSORRT" or cache_dir is None:
        return _PROVIDERS[device]
    cache_dir.mkdir(parents=True, exist_ok=True)
    return _PROVIDERS[device], {
        "trt_engine_cache_enable": "1",
        "trt_engine_cache_path": str(cache_dir),
    }


def _closed(*_: object) -> list[NDArray[np.float32]]:
    raise RuntimeError("the session is closed")


def _info(tensor: Any, where: str) -> TensorInfo:
    dtype = _DTYPES.get(tensor.type)
    if dtype is None:
        raise Malformed(f"{where}: '{tensor.name}' is a {tensor.type}; use a plain number type")
    shape = tuple(size if isinstance(size, int) else None for size in tensor.shape)
    return TensorInfo(tensor.name, dtype, shape)


def _missing(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == "onnxruntime":
        return "the onnxruntime package is not installed; pip install onnxruntime"
    return f"onnxruntime does not import here: {_one_line(error)}"


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
