"""Ray Serve: one replica with `@serve.batch`, raw bytes in and out."""
# mypy: disable-error-code="attr-defined, import-not-found, untyped-decorator"

import signal

import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import Response

from simulations.serve_bench.servers.session import ROWS_MAX, Session, port, workers


@serve.deployment(
    num_replicas=workers(),
    max_ongoing_requests=1024,
    ray_actor_options={"num_cpus": 0.1},
    logging_config={"enable_access_log": False, "log_level": "ERROR"},
)
class Model:
    def __init__(self) -> None:
        self._session = Session()

    @serve.batch(max_batch_size=ROWS_MAX, batch_wait_timeout_s=0.0)
    async def _run(self, bodies: list[bytes]) -> list[bytes]:
        return self._session.run_bytes(bodies)

    async def __call__(self, request: Request) -> Response:
        answer = await self._run(await request.body())
        return Response(answer, media_type="application/octet-stream")


if __name__ == "__main__":
    ray.init(
        num_cpus=2, include_dashboard=False, object_store_memory=100_000_000,
        logging_level="error", configure_logging=False,
    )  # fmt: skip
    serve.start(http_options={"host": "127.0.0.1", "port": port()})
    serve.run(Model.bind())
    signal.pause()
