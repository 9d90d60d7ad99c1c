"""Mosec: a Rust front, Python workers; raw bytes in and out, batches wait 1 ms at most."""
# mypy: disable-error-code="import-not-found, misc"

from mosec import Server, Worker

from simulations.serve_bench.servers.session import ROWS_MAX, Session, workers


class Model(Worker):
    resp_mime_type = "application/octet-stream"

    def __init__(self) -> None:
        super().__init__()
        self._session = Session()

    def deserialize(self, data: bytes) -> bytes:
        return data

    def serialize(self, data: bytes) -> bytes:
        return data

    def forward(self, data: list[bytes]) -> list[bytes]:
        return self._session.run_bytes(data)


if __name__ == "__main__":
    server = Server()  # it reads --address and --port itself
    server.append_worker(Model, num=workers(), max_batch_size=ROWS_MAX, max_wait_time=1)
    server.run()
