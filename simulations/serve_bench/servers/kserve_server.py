"""KServe's Python server, V2 binary tensors; it has no batching of its own."""
# mypy: disable-error-code="import-not-found, misc"

from kserve import InferOutput, InferRequest, InferResponse, Model, ModelServer

from simulations.serve_bench.servers.session import Session, port, workers


class Cnn(Model):
    def __init__(self) -> None:
        super().__init__("cnn")
        self._session: Session | None = None  # made in the worker, after the fork
        self.ready = True

    def predict(
        self, payload: InferRequest, headers: object = None, response_headers: object = None
    ) -> InferResponse:
        del headers, response_headers
        if self._session is None:
            self._session = Session()
        y = InferOutput("y", [1, 10], "FP32")
        y.set_data_from_numpy(self._session.run(payload.inputs[0].as_numpy()), binary_data=True)
        return InferResponse(payload.id or "1", "cnn", [y])


if __name__ == "__main__":
    ModelServer(
        http_port=port(), enable_grpc=False, workers=workers(), access_log_format=None,
        enable_latency_logging=False,
    ).start([Cnn()])  # fmt: skip
