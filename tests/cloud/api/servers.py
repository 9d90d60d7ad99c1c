"""The real API on a free port: a pool of tiny models, in a thread with its own event loop.

Every test that takes `lane` runs against each of `LANES`: the same handlers, the same limits.
"""

import asyncio
import contextlib
import http.client
import json
import socket
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cloud.api.app import ApiServer, Parts
from cloud.api.schemas import Status
from cloud.api.serving import fronting
from cloud.api.settings import Api
from cloud.experiments.experiments import Experiments
from cloud.experiments.metrics import ExperimentMetrics
from cloud.experiments.settings import Experiment
from cloud.gateway.gateway import Gateway
from cloud.jobs.answering import OipAnswering
from cloud.jobs.counts import JobCounts
from cloud.jobs.service import Jobs
from cloud.jobs.settings import JobSettings
from cloud.monitoring.metrics import Metrics
from cloud.serving.caches.result_cache import ResultCache
from cloud.serving.caches.settings import ResultCacheSettings
from cloud.serving.inference import Inference
from cloud.serving.job import Job, Priority
from cloud.serving.pool import ModelPool
from cloud.serving.reliability_metrics import ReliabilityMetrics
from cloud.serving.settings import Batching, ModelSettings, PoolSettings
from tests.tiny_bundle import write_tiny_bundle

LANES = ("aiohttp", "fast")
DEADLINE_S = 20.0
"""Of every wait; none of them is a pause."""
MODEL, OTHER, SPARE = "tiny-cloud", "tiny-other", "tiny-spare"
INFER = f"/v2/models/{MODEL}/infer"

lanes = pytest.mark.parametrize("lane", LANES)


def status(because: str | None = None) -> Status:
    return Status(
        name="w", ready=because is None, not_ready_because=because, broker=None, in_hand=0,
        store_up=True, models=(),
    )  # fmt: skip


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]  # by lowercase names
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "").split(";")[0]


@dataclass
class Running:
    """`call` is one request by the standard library; `raw` sends bytes as they are."""

    host: str
    port: int
    metrics: Metrics
    pool: ModelPool
    api: ApiServer
    stop: Callable[[], object]
    faults: list[dict[str, Any]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def call(
        self, method: str, path: str, body: bytes | str | None = None, **headers: str
    ) -> Reply:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=DEADLINE_S)
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, fields)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.call("GET", path, **headers)

    def infer(self, document: Any, path: str = INFER, **headers: str) -> Reply:
        return self.call("POST", path, json.dumps(document), **headers)

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), DEADLINE_S)

    def raw(self, *parts: bytes) -> bytes:
        """All that comes until the server closes; our side stays open."""
        with self.connect() as connection:
            for part in parts:
                connection.sendall(part)
            return until_closed(connection)

    def counted(self, sample: str) -> float:
        """A sample of `/metrics`, as `name{label="value"}`."""
        for line in self.get("/metrics").body.decode().splitlines():
            if line.rpartition(" ")[0] == sample:
                return float(line.rpartition(" ")[2])
        return 0.0


def until_closed(connection: socket.socket) -> bytes:
    content = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            content += chunk
    return content


def head(path: str = INFER, *headers: str, method: str = "POST", close: bool = True) -> bytes:
    connection = ["Connection: close"] if close else []
    lines = [f"{method} {path} HTTP/1.1", "Host: cloud", *connection, *headers, "", ""]
    return "\r\n".join(lines).encode()


def tensor(*rows: int, n_of: int = 16, **changes: Any) -> dict[str, Any]:
    """The JSON of `image`, uint8 [len(rows), 4, 4], one even shade for each row."""
    data = [shade for shade in rows for _ in range(n_of)]
    return {
        "name": "image", "datatype": "UINT8", "shape": [len(rows), 4, 4], "data": data, **changes,
    }  # fmt: skip


def bundles(folder: Path) -> tuple[Path, Path, Path]:
    """Two to serve from the start, and a folder with a third that may be loaded by name."""
    first, second, spares = folder / "first", folder / "second", folder / "spares"
    if not first.exists():
        write_tiny_bundle(first, name=MODEL, escalates=False, shift=1, answers_for=("tiny-edge",))
        write_tiny_bundle(second, name=OTHER, version="2.0.0", escalates=False)
        spares.mkdir()
        write_tiny_bundle(spares / "spare", name=SPARE, escalates=False, shift=2)
    return first, second, spares


def without_cache(metrics: Metrics) -> Inference:
    return Inference({}, ResultCache(ResultCacheSettings()), ReliabilityMetrics(metrics.registry))


class Held:
    """A queue that runs nothing; for `server(make_inference=...)`."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def rows_max(self, _: Priority) -> int:
        return 8

    def inference(self, metrics: Metrics) -> Inference:
        cache, counts = ResultCache(ResultCacheSettings()), ReliabilityMetrics(metrics.registry)
        return Inference({}, cache, counts, lambda _: self)


def until(running: Running, seen: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not seen():
        assert running.get("/v2/health/live").status == 200  # a round trip: its loop has turned
        assert time.monotonic() - began < DEADLINE_S


@contextlib.contextmanager
def server(
    folder: Path,
    lane: str = "aiohttp",
    settings: Api | None = None,
    state: Callable[[], Status] = status,
    make_gateway: Callable[[Metrics], Gateway] | None = None,
    make_inference: Callable[[Metrics], Inference] | None = None,
    with_jobs: bool = False,
    more: Sequence[Path] = (),
    experiments: Sequence[Experiment] = (),
) -> Iterator[Running]:
    """Running until the block ends; fails when anything failed on its event loop.

    `with_jobs`: with the asynchronous tier, whose database begins empty; `more`: bundles to serve.
    """
    started = Future[Running]()
    first, second, spares = bundles(folder)

    async def main() -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        metrics, batching = Metrics(), Batching(size_max=8)
        pool = ModelPool(
            [ModelSettings(bundle=first, engine="onnxruntime"),
             ModelSettings(bundle=second, engine="onnxruntime"),
             *(ModelSettings(bundle=path, engine="onnxruntime") for path in more)],
            pool=PoolSettings(folder=spares), batching=batching, cache_dir=folder / "engines",
        )  # fmt: skip
        gateway = make_gateway(metrics) if make_gateway else None
        inference = (make_inference or without_cache)(metrics)
        limits = settings or Api()
        jobs = _jobs(folder, pool, inference, limits, metrics) if with_jobs else None
        placing = Experiments(experiments, pool.find)
        ExperimentMetrics(placing.running, metrics.registry)
        parts = Parts(
            pool,
            inference,
            state,
            metrics,
            batching,
            gateway,
            jobs.desk if jobs else None,
            experiments=placing,
        )
        asked = limits.model_copy(update={"fast_lane": lane == "fast"})
        await pool.start()
        async with _working(jobs), fronting(parts, asked) as front:
            await front.listen(asked.port, shared=False)
            running = Running(
                asked.host,
                int(front.url.rsplit(":", 1)[1]),
                metrics,
                pool,
                front._server,
                lambda: loop.call_soon_threadsafe(stop.set),
            )
            loop.set_exception_handler(lambda _, context: running.faults.append(context))
            started.set_result(running)
            await stop.wait()
        await pool.close()

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    thread = threading.Thread(target=work, name="api-server")
    thread.start()
    running = started.result(DEADLINE_S)
    try:
        yield running
    finally:
        running.stop()
        thread.join(DEADLINE_S)
    assert not thread.is_alive()
    assert not running.faults


def _jobs(
    folder: Path, pool: ModelPool, inference: Inference, limits: Api, metrics: Metrics
) -> Jobs:
    database = Path(tempfile.mkdtemp(dir=folder)) / "jobs.db"
    answering = OipAnswering(pool.find, inference, limits.calls)
    counts = JobCounts(metrics.registry)
    return Jobs(f"sqlite:///{database}", JobSettings(), answering, counts)


@contextlib.asynccontextmanager
async def _working(jobs: Jobs | None) -> AsyncGenerator[None]:
    if jobs is None:
        yield
        return
    await jobs.open()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(jobs.run())
        yield
        jobs.drain()
