"""The calls to the driver, against a fake libcuda that has one GPU and counts."""

import ctypes
from typing import Any, cast

import numpy as np
import pytest

from shared.engines import cuda_driver
from shared.engines.cuda_driver import CudaDevice
from shared.errors import Unavailable


class FakeCuda:
    """Host memory stands for device memory."""

    def __init__(self, *, init: int = 0, fail: str = "") -> None:
        self._init = init
        self._fail = fail
        self.calls: list[str] = []
        self._blocks: dict[int, Any] = {}

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> int:
            self.calls.append(name)
            if name == self._fail:
                return 2
            handler = getattr(type(self), f"_{name}", None)
            if handler is not None:
                handler(self, *args)
            return self._init if name == "cuInit" else 0

        return call

    def _cuDeviceGetName(self, name: Any, size: int, device: Any) -> None:
        name.value = b"Fake GPU"

    def _cuStreamCreate(self, stream: Any, flags: int) -> None:
        ctypes.cast(stream, ctypes.POINTER(ctypes.c_void_p))[0] = 1234

    def _cuMemAlloc_v2(self, address: Any, size: ctypes.c_size_t) -> None:
        block = ctypes.create_string_buffer(size.value)
        place = ctypes.addressof(block)
        self._blocks[place] = block
        ctypes.cast(address, ctypes.POINTER(ctypes.c_uint64))[0] = place

    def _cuMemFree_v2(self, address: ctypes.c_uint64) -> None:
        del self._blocks[address.value]

    def _cuMemcpyHtoDAsync_v2(self, to: Any, source: Any, size: Any, stream: Any) -> None:
        ctypes.memmove(to.value, source.value, size.value)

    def _cuMemcpyDtoHAsync_v2(self, to: Any, source: Any, size: Any, stream: Any) -> None:
        ctypes.memmove(to.value, source.value, size.value)

    def _cuGetErrorString(self, status: int, text: Any) -> None:
        ctypes.cast(text, ctypes.POINTER(ctypes.c_char_p))[0] = b"out of memory"


def device_on(cuda: FakeCuda) -> CudaDevice:
    return CudaDevice(cast("ctypes.CDLL", cuda))


def test_there_and_back() -> None:
    cuda = FakeCuda()
    device = device_on(cuda)
    assert device.name == "Fake GPU"
    assert device.stream == 1234
    sent = np.arange(12, dtype=np.float32).reshape(3, 4)
    address = device.allocate(sent.nbytes)
    device.upload(address, sent)
    got = np.zeros_like(sent)
    device.download(got, address)
    np.testing.assert_array_equal(got, sent)
    assert cuda.calls[-1] == "cuStreamSynchronize"
    device.free(address)
    device.close()
    assert cuda.calls[-2:] == ["cuStreamDestroy_v2", "cuDevicePrimaryCtxRelease_v2"]


def test_no_device() -> None:
    with pytest.raises(Unavailable, match="the NVIDIA driver finds no GPU"):
        device_on(FakeCuda(init=100))


def test_what_the_driver_says_is_passed_on() -> None:
    device = device_on(FakeCuda(fail="cuMemAlloc_v2"))
    with pytest.raises(
        Unavailable, match=r"refused cuMemAlloc of 64 bytes: out of memory \(CUDA error 2\)"
    ):
        device.allocate(64)


@pytest.mark.parametrize(
    "call", ["cuDeviceGet", "cuDeviceGetName", "cuDevicePrimaryCtxRetain", "cuStreamCreate"]
)
def test_a_device_that_does_not_start(call: str) -> None:
    with pytest.raises(Unavailable, match=f"the GPU refused {call}: out of memory"):
        device_on(FakeCuda(fail=call))


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "_LIBRARY", "libcuda-that-is-nowhere.so")
    with pytest.raises(Unavailable, match=r"no NVIDIA driver here \(libcuda-that-is-nowhere"):
        CudaDevice()
