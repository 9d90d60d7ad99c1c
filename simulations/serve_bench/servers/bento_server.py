"""BentoML: a batchable API of base64 strings, cheaper for it than the nested JSON of an array."""
# mypy: disable-error-code="import-not-found, untyped-decorator"

import base64

import bentoml
import numpy as np

from simulations.serve_bench.servers.session import ROWS_MAX, Session, workers


@bentoml.service(
    workers=workers(),
    traffic={"timeout": 60, "max_concurrency": 1024},
    logging={"access": {"enabled": False}},
    metrics={"enabled": False},
)
class Model:
    def __init__(self) -> None:
        self._session = Session()

    @bentoml.api(
        batchable=True, batch_dim=0, max_batch_size=ROWS_MAX, max_latency_ms=1000, route="/predict"
    )
    def predict(self, x: list[str]) -> list[list[float]]:
        flat = np.frombuffer(b"".join(map(base64.b64decode, x)), np.float32)
        answers: list[list[float]] = self._session.run(flat.reshape(-1, 1, 28, 28)).tolist()
        return answers
