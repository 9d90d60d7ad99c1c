"""The one ONNX Runtime session of every Python server, so that only the serving differs."""

import os
from collections.abc import Sequence
from typing import Final

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

MODEL: Final = "SERVE_BENCH_MODEL"
"""Environment variable that names the ONNX file."""
PORT: Final = "SERVE_BENCH_PORT"
"""Environment variable with the TCP port to listen on, 127.0.0.1 only."""
WORKERS: Final = "SERVE_BENCH_WORKERS"
"""Environment variable with the number of processes that run the model."""
ROWS_MAX: Final = 64
"""Samples in a batch, for every server that has such a setting."""
ANSWER_BYTES: Final = 40
"""Ten float32 logits."""

Floats = NDArray[np.float32]


class Session:
    """One session of one thread; it may be made before a fork only if it is used after it."""

    def __init__(self) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = ort.InferenceSession(
            os.environ[MODEL], options, providers=["CPUExecutionProvider"]
        )

    def run(self, x: Floats) -> Floats:
        """float32 [n, 1, 28, 28] -> float32 [n, 10]."""
        y: Floats = self._session.run(None, {"x": x})[0]
        return y

    def run_bytes(self, bodies: Sequence[bytes | memoryview]) -> list[bytes]:
        """Raw little-endian samples of 3,136 bytes each -> their raw answers of 40 bytes each."""
        flat = np.frombuffer(b"".join(bodies), np.float32)
        y = self.run(flat.reshape(-1, 1, 28, 28)).tobytes()
        return [y[at : at + ANSWER_BYTES] for at in range(0, len(y), ANSWER_BYTES)]


def port() -> int:
    """Give the port that the bench chose."""
    return int(os.environ[PORT])


def workers() -> int:
    """Give the number of processes or instances that the bench asks for."""
    return int(os.environ.get(WORKERS, "1"))
