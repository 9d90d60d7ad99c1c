"""The application's side: push images to agents on a schedule, note every answer and its time."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import numpy as np
from numpy.typing import NDArray

from cloud.demo.seen import Seen
from shared.errors import Unavailable
from shared.oip.request import InferRequest, encode_request
from shared.oip.tensors import Tensor

_FINAL_S_MAX = 30.0  # after the last image, for the answers still on their way


@dataclass(frozen=True, slots=True)
class Final:
    """A final answer as the agent's event stream tells it, and when it came."""

    label: int
    escalated: bool
    uplink_bytes: int
    at: float


class Application:
    """Pushes image i to agent i modulo their number, at a fixed rate, waiting for no answer."""

    def __init__(
        self, agents: list[str], model: str, images: NDArray[np.uint8], on_done: Callable[[], None]
    ) -> None:
        self._agents, self._model, self._images, self._on_done = agents, model, images, on_done
        self._seen = Seen.nothing(len(images))
        self._sent_at = np.zeros(len(images))
        self._by_sample: dict[str, int] = {}
        self._early: dict[str, Final] = {}  # events that beat the response with their sample's id
        self._missing = len(images)
        self._all_final = asyncio.Event()

    async def run(self, rate_per_s: float) -> Seen:
        """Push everything, wait for the final answers. Raises `Unavailable` when one fails."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as http:
            streams = [await http.get(f"{agent}/v1/answers/stream") for agent in self._agents]
            listening = [asyncio.create_task(self._listen(stream)) for stream in streams]
            try:
                async with asyncio.TaskGroup() as pushes:
                    started = time.perf_counter()
                    for number in range(len(self._images)):
                        await asyncio.sleep(started + number / rate_per_s - time.perf_counter())
                        pushes.create_task(self._push(http, number))
                with suppress(TimeoutError):  # what is missing shows as -1; the verdict says so
                    async with asyncio.timeout(_FINAL_S_MAX):
                        await self._all_final.wait()
            finally:
                for task in listening:
                    task.cancel()
                await asyncio.gather(*listening, return_exceptions=True)
                for stream in streams:
                    stream.close()
        return self._seen

    async def _push(self, http: aiohttp.ClientSession, number: int) -> None:
        asked = encode_request(InferRequest((Tensor("image", self._images[number][None]),)))
        url = f"{self._agents[number % len(self._agents)]}/v2/models/{self._model}/infer"
        self._sent_at[number] = time.perf_counter()
        async with http.post(url, data=asked.body, headers=dict(asked.headers)) as response:
            document = await response.json(content_type=None)
            if response.status != HTTPStatus.OK:
                raise Unavailable(f"{url}: {response.status}: {document}")
        elapsed_ms = (time.perf_counter() - self._sent_at[number]) * 1e3
        values = {output["name"]: output["data"][0] for output in document["outputs"]}
        seen = self._seen
        seen.first_label[number] = values["index"]
        seen.confidence[number] = values["confidence"]
        seen.first_ms[number] = elapsed_ms
        if values["final"]:
            seen.final_label[number] = values["index"]
            seen.final_ms[number] = elapsed_ms
        self._by_sample[values["sample_id"]] = number
        if (early := self._early.pop(values["sample_id"], None)) is not None:
            self._finish(number, early)

    async def _listen(self, stream: aiohttp.ClientResponse) -> None:
        async for line in stream.content:
            if not line.startswith(b"data: "):
                continue
            answer = json.loads(line[6:])
            if answer["given_up"]:
                continue
            final = Final(
                answer["index"], answer["route"] != "accepted", answer["uplink_bytes"],
                time.perf_counter(),
            )  # fmt: skip
            number = self._by_sample.get(answer["sample_id"])
            if number is None:
                self._early[answer["sample_id"]] = final
            else:
                self._finish(number, final)

    def _finish(self, number: int, final: Final) -> None:
        seen = self._seen
        if seen.final_label[number] == -1:
            seen.final_label[number] = final.label
            seen.final_ms[number] = (final.at - self._sent_at[number]) * 1e3
        seen.escalated[number] = final.escalated
        seen.uplink_bytes[number] = final.uplink_bytes
        self._missing -= 1
        self._on_done()
        if not self._missing:
            self._all_final.set()
