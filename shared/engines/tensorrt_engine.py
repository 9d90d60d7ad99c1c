"""TensorRT: NVIDIA GPUs, from ONNX, compiled on the device and cached.

Networks are strongly typed: the artifact's own types and QDQ nodes say what is fp16 or int8, as
for every other engine. TensorRT 10 has it as a flag, and 11 knows nothing else (its FP16 and INT8
builder flags are gone). Written against the 10 and 11 Python APIs; never run in CI, which has no
GPU: what is tested is everything up to the driver, behind two seams (`load`, `device`).
"""

import hashlib
import importlib
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.engines.batches import BatchCheck, sole_input
from shared.engines.cuda_driver import CudaDevice, Device
from shared.engines.engine import Absent, Available, OpenOptions, Session, TensorInfo
from shared.engines.engine_cache import CacheKey, load_compiled, store_compiled
from shared.engines.external_data import refuse_external_data
from shared.errors import Malformed, TooLarge, Unavailable

_WORKSPACE_BYTES = 1 << 30
_DTYPES = {
    "UINT8": "uint8",
    "INT8": "int8",
    "INT32": "int32",
    "INT64": "int64",
    "HALF": "float16",
    "FLOAT": "float32",
}


def load_tensorrt() -> Any:
    """Import it. Raises `Unavailable` in one line."""
    try:
        return importlib.import_module("tensorrt")
    except ModuleNotFoundError as error:
        if error.name == "tensorrt":
            raise Unavailable(
                "the tensorrt package is not installed; pip install hybridge[tensorrt]"
            ) from error
        raise Unavailable(f"tensorrt does not import here: {error}") from error
    except (ImportError, OSError, RuntimeError) as error:
        raise Unavailable(
            f"tensorrt does not import here: {' '.join(str(error).split())}"
        ) from error


class TensorRtEngine:
    name = "tensorrt"

    def __init__(
        self,
        load: Callable[[], Any] = load_tensorrt,
        device: Callable[[], Device] = CudaDevice,
    ) -> None:
        self._load = load
        self._device = device

    def probe(self) -> Available | Absent:
        try:
            version = str(self._load().__version__)
            device = self._device()
            try:
                return Available(version=version, devices=(device.name,))
            finally:
                device.close()
        except Unavailable as error:
            return Absent(str(error))

    def open(self, artifact: bytes, options: OpenOptions) -> Session:
        refuse_external_data(artifact, options.where)
        trt = self._load()
        device = self._device()
        try:
            logger = trt.Logger(trt.Logger.ERROR)
            key = CacheKey(
                artifact_sha256=hashlib.sha256(artifact).hexdigest(),
                gpu=device.name,
                runtime_version=str(trt.__version__),
                batch_max=options.batch_max,
            )
            engine = _load_or_compile(trt, logger, artifact, options, key)
            return _TensorRtSession(trt, engine, device, options)
        except BaseException:
            device.close()
            raise


def _load_or_compile(
    trt: Any, logger: Any, artifact: bytes, options: OpenOptions, key: CacheKey
) -> Any:
    runtime = trt.Runtime(logger)
    cached = load_compiled(options.cache_dir, key)
    if cached is not None:
        engine = runtime.deserialize_cuda_engine(cached)
        if engine is not None:
            return engine
    compiled = _compile(trt, logger, artifact, options)
    engine = runtime.deserialize_cuda_engine(compiled)
    if engine is None:
        raise Unavailable(f"{options.where}: tensorrt cannot load what it compiled; see its log")
    store_compiled(options.cache_dir, key, compiled)
    return engine


def _compile(trt: Any, logger: Any, artifact: bytes, options: OpenOptions) -> bytes:
    builder = trt.Builder(logger)
    strongly_typed = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    network = builder.create_network(strongly_typed)
    parser = trt.OnnxParser(network, logger)
    if not parser.parse(artifact):
        said = "; ".join(str(parser.get_error(i)) for i in range(min(parser.num_errors, 3)))
        raise Malformed(
            f"{options.where}: tensorrt cannot read it: {' '.join(said.split())}; rebuild the bundle"
        )
    if network.num_inputs != 1:
        raise Malformed(
            f"{options.where}: the graph has {network.num_inputs} inputs; one is needed"
        )
    tensor = network.get_input(0)
    sizes = tuple(tensor.shape)[1:]
    batch_usual = max(1, options.batch_max // 2)
    profile = builder.create_optimization_profile()
    profile.set_shape(tensor.name, (1, *sizes), (batch_usual, *sizes), (options.batch_max, *sizes))
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, _WORKSPACE_BYTES)
    config.add_optimization_profile(profile)
    compiled = builder.build_serialized_network(network, config)
    if compiled is None:
        raise Malformed(f"{options.where}: tensorrt cannot compile it for this GPU; see its log")
    return bytes(compiled)


class _TensorRtSession:
    """Device buffers for the largest batch are allocated once, at opening."""

    def __init__(self, trt: Any, engine: Any, device: Device, options: OpenOptions) -> None:
        self._where = options.where
        self._batch_max = options.batch_max
        self._device = device
        self._context = engine.create_execution_context()
        names = [engine.get_tensor_name(i) for i in range(engine.num_io_tensors)]
        is_input = {name: engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT for name in names}
        self.inputs = tuple(_info(engine, name, self._where) for name in names if is_input[name])
        self.outputs = tuple(
            _info(engine, name, self._where) for name in names if not is_input[name]
        )
        self._input = sole_input(self.inputs, self._where)
        self._check = BatchCheck(self._input, self._where).check
        self._addresses: dict[str, int] = {}
        try:
            for tensor in (*self.inputs, *self.outputs):
                size = np.dtype(tensor.dtype).itemsize * prod(_sizes(tensor)) * self._batch_max
                self._addresses[tensor.name] = device.allocate(size)
                self._context.set_tensor_address(tensor.name, self._addresses[tensor.name])
        except BaseException:
            self._free()
            raise

    def run(self, batch: NDArray[np.generic]) -> NDArray[np.float32]:
        self._check(batch)
        if len(batch) > self._batch_max:
            raise TooLarge(
                f"{self._where}: a batch of {len(batch)}; this engine was compiled for up to "
                f"{self._batch_max}"
            )
        self._device.enter()
        self._device.upload(self._addresses[self._input.name], np.ascontiguousarray(batch))
        self._context.set_input_shape(self._input.name, batch.shape)
        if not self._context.execute_async_v3(self._device.stream):
            raise Unavailable(f"{self._where}: tensorrt failed to run; see its log")
        output = self.outputs[0]
        answer = np.empty((len(batch), *_sizes(output)), output.dtype)
        self._device.download(answer, self._addresses[output.name])
        return answer.astype(np.float32, copy=False)

    def close(self) -> None:
        self._free()
        self._context = None
        self._device.close()

    def _free(self) -> None:
        while self._addresses:
            self._device.free(self._addresses.popitem()[1])


def _sizes(tensor: TensorInfo) -> tuple[int, ...]:
    return tuple(size for size in tensor.shape[1:] if size is not None)


def _info(engine: Any, name: str, where: str) -> TensorInfo:
    dtype = _DTYPES.get(engine.get_tensor_dtype(name).name)
    if dtype is None:
        raise Malformed(
            f"{where}: '{name}' is {engine.get_tensor_dtype(name).name}; use a plain number type"
        )
    shape = tuple(None if size < 0 else int(size) for size in engine.get_tensor_shape(name))
    return TensorInfo(name, dtype, shape)
