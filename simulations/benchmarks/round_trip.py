"""An escalation there and back against a bare paho echo: same broker, same payload.

An escalation's trip begins when the edge has answered and ends when the final answer is fused: encoding,
outbox, broker, the cloud worker's process, cloud model, broker, fusion. The agent times both ends.
The echo: a paho client here, another in a process of its own, each with paho's own thread.
"""

import asyncio
import queue
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from urllib.parse import urlsplit

import numpy as np
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from cloud.demo.processes import running
from edge.agent import Agent
from edge.answers import Sample
from shared.new_ids import new_sample_id
from shared.wire.envelope import Escalation, pack_escalation
from shared.wire.pixels import Encoder
from simulations.benchmarks.echo import no_delay
from simulations.benchmarks.report import ROUNDS, Row, medians
from simulations.benchmarks.setting import Setting, agent_here

_TRIPS = 150
_WAIT_S = 10.0


async def measure(setting: Setting) -> list[Row]:
    arguments = ("-m", "cloud", "serve", "--bundle", str(setting.cloud_bundle), "--state-dir", str(setting.folder / "cloud"))  # fmt: skip
    routing: dict[str, object] = {"confidence_min": 1.01}  # everything
    async with running("bench-cloud", arguments, setting.folder) as cloud:
        url = cloud.ready["broker"]
        async with agent_here(setting, "bench-trip", url, routing) as (agent, journal):
            assert agent.uplink is not None
            async with asyncio.TaskGroup() as parts:
                writing = parts.create_task(journal.run())
                parts.create_task(agent.uplink.run())
                echo = await asyncio.to_thread(_Echo, url, _payload(setting))
                await _trips(agent, setting)
                pairs = [
                    (await _trips(agent, setting), await asyncio.to_thread(echo.trips))
                    for _ in range(ROUNDS)
                ]
                echo.close()
                await agent.uplink.drain()
                journal.drain()
                await writing
    value, floor, ratio = medians(pairs)
    return [
        Row("escalation round trip, p50", value, "bare paho echo", floor, "ms", ratio, "<=", 2.5)
    ]


async def _trips(agent: Agent, setting: Setting) -> float:
    took = []
    for number in range(_TRIPS):
        image = setting.images[number % len(setting.images)]
        sample = Sample(new_sample_id(), image, time.time(), time.monotonic())
        await agent.take([sample])
        answer = await agent.final(sample.id, _WAIT_S)
        took.append(answer.latency_ms - answer.first_latency_ms)
    return statistics.median(took)


def _payload(setting: Setting) -> bytes:
    """A real escalation of the size that this data set's have."""
    image = setting.images[0]
    dictionary = (setting.edge_bundle / "grey4.dict").read_bytes()
    return pack_escalation(
        Escalation(
            new_sample_id(), "fashion-edge", "1.0.0", "escalated", 1000, time.time(), 0, 0.5,
            replace(Encoder("grey4", dictionary).encode(np.asarray(image))),
        )
    )  # fmt: skip


class _Echo:
    def __init__(self, url: str, payload: bytes) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._payload = payload
        self._answers = queue.SimpleQueue[bytes]()
        self._other = subprocess.Popen(  # noqa: S603  our own module
            [sys.executable, "-m", "simulations.benchmarks.echo", parts.hostname, str(parts.port)],
            stdout=subprocess.PIPE,
        )
        assert self._other.stdout is not None
        self._other.stdout.readline()  # it says when it has subscribed
        subscribed = queue.SimpleQueue[None]()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, "bench-echo", protocol=paho.MQTTv5)
        self._client.on_message = lambda _c, _u, message: self._answers.put(bytes(message.payload))
        self._client.on_subscribe = lambda *_: subscribed.put(None)
        self._client.on_socket_open = no_delay
        self._client.connect(parts.hostname, parts.port)
        self._client.loop_start()
        self._client.subscribe("bench/back", 1)
        subscribed.get(timeout=_WAIT_S)
        self.trips()

    def trips(self) -> float:
        took = []
        for _ in range(_TRIPS):
            started = time.perf_counter()
            self._client.publish("bench/there", self._payload, 1)
            self._answers.get(timeout=_WAIT_S)
            took.append(time.perf_counter() - started)
        return statistics.median(took) * 1e3

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
        self._other.terminate()
        self._other.wait()
