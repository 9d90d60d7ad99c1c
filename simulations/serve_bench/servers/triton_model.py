"""Model of Triton's Python backend: becomes `cnn/1/model.py` of its repository."""
# mypy: disable-error-code="import-not-found"

import os
import sys
from typing import Any

import numpy as np
import triton_python_backend_utils as backend


class TritonPythonModel:  # the name that the backend looks for
    def initialize(self, _: dict[str, str]) -> None:
        sys.path.append(os.environ["SERVE_BENCH_REPOSITORY"])  # the stub sets its own PYTHONPATH
        from simulations.serve_bench.servers.session import Session  # noqa: PLC0415

        self._session = Session()

    def execute(self, requests: list[Any]) -> list[Any]:
        parts = [backend.get_input_tensor_by_name(one, "x").as_numpy() for one in requests]
        y = self._session.run(parts[0] if len(parts) == 1 else np.concatenate(parts))
        answers, at = [], 0
        for part in parts:
            tensor = backend.Tensor("y", y[at : at + len(part)])
            answers.append(backend.InferenceResponse([tensor]))
            at += len(part)
        return answers
