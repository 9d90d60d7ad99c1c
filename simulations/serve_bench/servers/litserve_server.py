"""LitServe: base64 in JSON, as only JSON and forms reach `decode_request`; raw bytes back."""
# mypy: disable-error-code="import-not-found, misc"

import base64

import litserve
from fastapi import Response

from simulations.serve_bench.servers.session import ROWS_MAX, Session, port, workers


class Api(litserve.LitAPI):
    def setup(self, _: str) -> None:
        self._session = Session()

    def decode_request(self, request: dict[str, str]) -> bytes:
        return base64.b64decode(request["x"])

    def batch(self, inputs: list[bytes]) -> list[bytes]:
        return inputs

    def predict(self, x: list[bytes]) -> list[bytes]:
        return self._session.run_bytes(x)

    def unbatch(self, output: list[bytes]) -> list[bytes]:
        return output

    def encode_response(self, output: bytes) -> Response:
        return Response(content=output, media_type="application/octet-stream")


if __name__ == "__main__":
    litserve.LitServer(
        Api(max_batch_size=ROWS_MAX, batch_timeout=0.001),
        accelerator="cpu", workers_per_device=workers(), fast_queue=True, disable_openapi_url=True,
    ).run(
        host="127.0.0.1", port=port(), num_api_servers=1, generate_client_file=False,
        log_level="error", access_log=False,
    )  # fmt: skip
