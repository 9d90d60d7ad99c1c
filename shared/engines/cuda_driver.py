"""The few calls of the CUDA driver that running a TensorRT engine takes, over ctypes.

libcuda comes with the driver itself, so no package has to match it. TensorRT works in the device's
primary context, which is the one retained here. Source: CUDA Driver API reference, sections 6.2
(initialization), 6.7 (primary context), 6.13 (memory), 6.18 (streams).
"""

import ctypes
import sys
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from shared.errors import Unavailable

_NAME_BYTES = 256
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


class Device(Protocol):
    """One GPU: its name, its memory, one stream. The seam that tests replace."""

    @property
    def name(self) -> str: ...

    @property
    def stream(self) -> int:
        """The handle that `execute_async_v3` takes."""
        ...

    def enter(self) -> None:
        """Make this device's context the calling thread's."""
        ...

    def allocate(self, size: int) -> int:
        """An address in device memory; raises `Unavailable` when there is not enough."""
        ...

    def free(self, address: int) -> None: ...

    def upload(self, address: int, array: NDArray[np.generic]) -> None: ...

    def download(self, array: NDArray[np.generic], address: int) -> None:
        """Wait for the stream's work, then fill `array`."""
        ...

    def close(self) -> None: ...


class CudaDevice:
    """The first GPU. Raises `Unavailable` in one line: no driver, no device, or what it said."""

    def __init__(self, library: ctypes.CDLL | None = None) -> None:
        self._cuda = _load() if library is None else library
        status = self._cuda.cuInit(0)
        if status == _NO_DEVICE:
            raise Unavailable("the NVIDIA driver finds no GPU; check `nvidia-smi`")
        self._ask("cuInit", status)
        device = ctypes.c_int()
        self._ask("cuDeviceGet", self._cuda.cuDeviceGet(ctypes.byref(device), 0))
        self._device = device
        name = ctypes.create_string_buffer(_NAME_BYTES)
        self._ask("cuDeviceGetName", self._cuda.cuDeviceGetName(name, _NAME_BYTES, device))
        self.name = name.value.decode(errors="replace")
        self._context = ctypes.c_void_p()
        self._ask(
            "cuDevicePrimaryCtxRetain",
            self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(self._context), device),
        )
        self.enter()
        self._stream = ctypes.c_void_p()
        self._ask("cuStreamCreate", self._cuda.cuStreamCreate(ctypes.byref(self._stream), 0))

    @property
    def stream(self) -> int:
        return self._stream.value or 0

    def enter(self) -> None:
        self._ask("cuCtxSetCurrent", self._cuda.cuCtxSetCurrent(self._context))

    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self._ask(
            f"cuMemAlloc of {size} bytes",
            self._cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)),
        )
        return address.value

    def free(self, address: int) -> None:
        self._ask("cuMemFree", self._cuda.cuMemFree_v2(ctypes.c_uint64(address)))

    def upload(self, address: int, array: NDArray[np.generic]) -> None:
        status = self._cuda.cuMemcpyHtoDAsync_v2(
            ctypes.c_uint64(address),
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_size_t(array.nbytes),
            self._stream,
        )
        self._ask("cuMemcpyHtoDAsync", status)

    def download(self, array: NDArray[np.generic], address: int) -> None:
        status = self._cuda.cuMemcpyDtoHAsync_v2(
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_uint64(address),
            ctypes.c_size_t(array.nbytes),
            self._stream,
        )
        self._ask("cuMemcpyDtoHAsync", status)
        self._ask("cuStreamSynchronize", self._cuda.cuStreamSynchronize(self._stream))

    def close(self) -> None:
        self._ask("cuStreamDestroy", self._cuda.cuStreamDestroy_v2(self._stream))
        self._ask(
            "cuDevicePrimaryCtxRelease", self._cuda.cuDevicePrimaryCtxRelease_v2(self._device)
        )

    def _ask(self, call: str, status: int) -> None:
        if status:
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(status, ctypes.byref(text))
            said = (text.value or b"unknown error").decode(errors="replace")
            raise Unavailable(f"the GPU refused {call}: {said} (CUDA error {status})")


def _load() -> ctypes.CDLL:
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise Unavailable(f"no NVIDIA driver here ({_LIBRARY} is not found); install it") from error
