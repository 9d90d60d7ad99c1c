"""A server of the Open Inference Protocol over aiohttp and `shared/oip`, in a thread of its own.

It stands for Triton where faults are needed that the real one does not make on demand, and answers
what Triton answers: metadata, model configuration, infer with binary data.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from aiohttp import web

from shared.oip.body import HEADER_LENGTH
from shared.oip.datatypes import datatype_of
from shared.oip.request import decode_request
from shared.oip.response import InferResponse, encode_response
from shared.oip.tensors import Tensor

Answers = Callable[[np.ndarray], np.ndarray]


@dataclass
class Model:
    """What the server says of itself and does. Changed by tests while it runs."""

    answers: Answers  # [n, ...] -> [n, classes]
    inputs: list[dict] = field(default_factory=list)
    outputs: list[dict] = field(default_factory=list)
    name: str = "tiny"
    batch_max: int = 8
    config: bool = True
    status: int = 200
    says: str = "on purpose"  # with a status that is no 200
    silent: bool = False  # never answers an infer
    garbage: bool = False  # answers what is no answer
    together: int = 0  # holds requests until so many are in hand
    in_hand: int = 0
    in_hand_max: int = 0
    arrived: threading.Event = field(default_factory=threading.Event)  # an infer
    batches: list[int] = field(default_factory=list)
    timeouts_us: list[object] = field(default_factory=list)


class OipServer:
    """`start` and `stop`, as often as wanted, on one port."""

    def __init__(self, model: Model) -> None:
        self.model = model
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self._thread: threading.Thread | None = None
        self._abruptly = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(up)))
        self._thread.start()
        assert up.wait(10)

    def stop(self, *, abruptly: bool = False) -> None:
        """`abruptly`: connections end in the middle of their requests."""
        if self._thread is not None:
            self._abruptly = abruptly
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(10)
            self._thread = None

    async def _serve(self, up: threading.Event) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._changed = asyncio.Condition()
        app = web.Application()
        model = f"/v2/models/{self.model.name}"
        app.add_routes([
            web.get("/v2", self._metadata), web.get(model, self._model_metadata),
            web.get(f"{model}/config", self._config), web.post(f"{model}/infer", self._infer),
        ])  # fmt: skip
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, reuse_address=True).start()
        up.set()
        await self._end.wait()
        await runner.cleanup()

    async def _metadata(self, _: web.Request) -> web.Response:
        return web.json_response({"name": "fake", "version": "1", "extensions": []})

    async def _model_metadata(self, _: web.Request) -> web.Response:
        m = self.model
        return web.json_response({
            "name": m.name, "versions": ["1"], "platform": "fake",
            "inputs": m.inputs, "outputs": m.outputs,
        })  # fmt: skip

    async def _config(self, _: web.Request) -> web.Response:
        if not self.model.config:
            return web.json_response({"error": "no such route"}, status=404)
        return web.json_response({"max_batch_size": self.model.batch_max})

    async def _infer(self, request: web.Request) -> web.Response:
        m = self.model
        asked = decode_request(await request.read(), request.headers.get(HEADER_LENGTH))
        m.in_hand += 1
        m.arrived.set()
        m.in_hand_max = max(m.in_hand_max, m.in_hand)
        try:
            async with self._changed:
                self._changed.notify_all()
                await self._changed.wait_for(lambda: m.in_hand >= m.together)
                m.together = 0
            if m.silent:
                await self._end.wait()
            if self._abruptly and request.transport is not None:
                request.transport.abort()
        finally:
            m.in_hand -= 1
        if m.status != 200:
            return web.json_response({"error": m.says}, status=m.status)
        if m.garbage:
            return web.Response(body=b"{", headers={HEADER_LENGTH: "1"})
        rows = asked.inputs[0].array
        m.batches.append(len(rows))
        m.timeouts_us.append(asked.parameters.get("timeout"))
        if len(rows) > m.batch_max:
            return web.json_response({"error": "batch is too large"}, status=400)
        (wanted,) = asked.outputs
        said = InferResponse(m.name, "1", (Tensor(wanted.name, m.answers(rows)),))
        encoded = encode_response(said, [(wanted.name, bool(wanted.binary))])
        return web.Response(body=encoded.body, headers=encoded.headers)


def spec(name: str, array: np.ndarray) -> dict:
    """A tensor's metadata, after one batch of it."""
    return {"name": name, "datatype": datatype_of(array.dtype), "shape": [-1, *array.shape[1:]]}


@contextmanager
def serving(answers: Answers, inputs: np.ndarray, **model: object) -> Iterator[OipServer]:
    """A started server of a model that takes such `inputs` as "image" and gives "logits"."""
    described = Model(answers, [spec("image", inputs)], [spec("logits", answers(inputs))], **model)  # type: ignore[arg-type]
    server = OipServer(described)
    server.start()
    try:
        yield server
    finally:
        server.stop()
