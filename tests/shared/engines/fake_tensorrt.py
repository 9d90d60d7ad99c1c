"""TensorRT's Python API and a GPU, as far as the engine uses them; records what it was asked."""

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared.errors import Unavailable
from tests.tiny_bundle import tiny_logits

PLAN = b"compiled for the fake GPU"


@dataclass
class FakeDevice:
    """Device memory is a dictionary; addresses are made up."""

    name: str = "Fake GPU 9000"
    stream: int = 77
    memory: dict[int, bytes] = field(default_factory=dict)
    freed: list[int] = field(default_factory=list)
    entered: int = 0
    closed: bool = False
    room: int = 1 << 30

    def enter(self) -> None:
        self.entered += 1

    def allocate(self, size: int) -> int:
        if size > self.room:
            raise Unavailable(f"the GPU refused cuMemAlloc of {size} bytes: out of memory")
        self.room -= size
        address = 0x1000 * (len(self.memory) + 1)
        self.memory[address] = bytes(size)
        return address

    def free(self, address: int) -> None:
        del self.memory[address]
        self.freed.append(address)

    def upload(self, address: int, array: NDArray[np.generic]) -> None:
        assert array.flags.c_contiguous
        assert array.nbytes <= len(self.memory[address])
        self.memory[address] = array.tobytes().ljust(len(self.memory[address]), b"\0")

    def download(self, array: NDArray[np.generic], address: int) -> None:
        flat = np.frombuffer(self.memory[address], array.dtype, count=array.size)
        array[...] = flat.reshape(array.shape)

    def close(self) -> None:
        assert not self.memory, "closed before its memory was freed"
        self.closed = True


class TensorIOMode(Enum):
    INPUT = 1
    OUTPUT = 2


class CreationFlag(IntEnum):
    STRONGLY_TYPED = 1


class FakeTensorRt:
    """Stands for the module `tensorrt`. Its one network is the tiny model."""

    __version__ = "11.4.0"
    TensorIOMode = TensorIOMode
    NetworkDefinitionCreationFlag = CreationFlag
    MemoryPoolType = SimpleNamespace(WORKSPACE="workspace")

    def __init__(self, device: FakeDevice) -> None:
        self.device = device
        self.compiled = 0
        self.flags = 0
        self.profiles: list[Any] = []
        self.parses = True
        self.builds = True
        self.runs = True
        self.Logger = _Callable(lambda severity: "logger", ERROR=1)

    def Builder(self, logger: str) -> Any:
        return SimpleNamespace(
            create_network=self._network,
            create_optimization_profile=lambda: SimpleNamespace(
                set_shape=lambda *shapes: self.profiles.append(shapes)
            ),
            create_builder_config=lambda: SimpleNamespace(
                set_memory_pool_limit=lambda pool, size: None,
                add_optimization_profile=lambda profile: 0,
            ),
            build_serialized_network=self._build,
        )

    def OnnxParser(self, network: Any, logger: str) -> Any:
        return SimpleNamespace(
            parse=lambda artifact: self.parses,
            num_errors=1,
            get_error=lambda number: "no importer for\nop NoSuchOp",
        )

    def Runtime(self, logger: str) -> Any:
        return SimpleNamespace(
            deserialize_cuda_engine=lambda plan: _Engine(self) if plan == PLAN else None
        )

    def _network(self, flags: int) -> Any:
        self.flags = flags
        tensor = SimpleNamespace(name="image", shape=(-1, 4, 4))
        return SimpleNamespace(num_inputs=1, get_input=lambda number: tensor)

    def _build(self, network: Any, config: Any) -> bytes | None:
        self.compiled += 1
        return PLAN if self.builds else None


class _Callable:
    def __init__(self, call: Any, **names: Any) -> None:
        self._call = call
        self.__dict__.update(names)

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)


class _Engine:
    num_io_tensors = 2

    def __init__(self, trt: FakeTensorRt) -> None:
        self._trt = trt

    def get_tensor_name(self, number: int) -> str:
        return ("image", "logits")[number]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if name == "image" else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> Any:
        return SimpleNamespace(name="UINT8" if name == "image" else "FLOAT")

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return (-1, 4, 4) if name == "image" else (-1, 3)

    def create_execution_context(self) -> Any:
        return _Context(self._trt)


class _Context:
    def __init__(self, trt: FakeTensorRt) -> None:
        self._trt = trt
        self._addresses: dict[str, int] = {}
        self._shape: tuple[int, ...] = ()

    def set_tensor_address(self, name: str, address: int) -> None:
        self._addresses[name] = address

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> None:
        assert name == "image"
        self._shape = tuple(shape)

    def execute_async_v3(self, stream: int) -> bool:
        assert stream == self._trt.device.stream
        memory = self._trt.device.memory
        images = np.frombuffer(
            memory[self._addresses["image"]], np.uint8, count=int(np.prod(self._shape))
        )
        logits = tiny_logits(images.reshape(self._shape)).tobytes()
        address = self._addresses["logits"]
        memory[address] = logits.ljust(len(memory[address]), b"\0")
        return self._trt.runs
