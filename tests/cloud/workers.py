"""Real cloud workers as child processes, and a device that talks to them over a real broker."""

import contextlib
import json
import subprocess
import sys
import urllib.error
import urllib.request
from asyncio import Future
from collections.abc import Iterator
from pathlib import Path
from typing import cast

from cloud.broker.launch import BrokerAddress
from shared.ids import DeviceId, SampleId
from shared.topics import answers, escalations
from shared.wire.envelope import Downlink, Escalation, pack_escalation, unpack_downlink
from shared.wire.pixels import Encoder
from tests.brokers import Client
from tests.cloud.samples import escalation
from tests.tiny_bundle import sure_image, write_tiny_bundle

ROOT = Path(__file__).parents[2]
DEADLINE_S = 20.0
"""Of every wait for a process; none of them is a pause."""


def cloud_bundle(folder: Path) -> Path:
    path = folder / "cloud-bundle"
    if not path.exists():
        write_tiny_bundle(
            path, name="tiny-cloud", escalates=False, shift=1, answers_for=("tiny-edge",)
        )
    return path


class Worker:
    """`python -m cloud serve`, ready to answer."""

    def __init__(self, folder: Path, *arguments: str, config: str = "") -> None:
        path = folder / "cloud.toml"
        head = f'state_dir = "state"\n{config}\n[[models]]\nbundle = "{cloud_bundle(folder)}"\n'
        path.write_text(head)
        self.state_dir = folder / "state"
        self.log = folder / f"worker-{len(list(folder.glob('worker-*')))}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cloud", "serve", "--config", str(path), *arguments],
                cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip

    def ready(self) -> "Worker":
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the worker ended: {self.log.read_text()}"
        said = json.loads(line)
        assert said["event"] == "cloud_ready"
        self.api, self.broker = str(said["api"]), str(said["broker"])
        return self

    @property
    def address(self) -> BrokerAddress:
        host, port = self.broker.removeprefix("mqtt://").split(":")
        return BrokerAddress(host, int(port), cast("Future[int]", None))

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.api + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def count(self, name: str) -> float:
        _, text = self.get("/metrics")
        return next(
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.startswith(f"hybridge_{name} ")
        )

    def exit_code(self) -> int:
        return self.process.wait(DEADLINE_S)

    def terminate(self) -> int:
        self.process.terminate()
        return self.exit_code()

    def kill(self) -> None:
        self.process.kill()
        self.exit_code()


@contextlib.contextmanager
def worker(folder: Path, *arguments: str, config: str = "") -> Iterator[Worker]:
    one = Worker(folder, *arguments, config=config)
    try:
        yield one
    finally:
        one.kill()
        assert one.process.stdout is not None
        one.process.stdout.close()


class Device:
    """Sends escalations, and sends again what has no reply."""

    def __init__(self, address: BrokerAddress, name: str = "cam-1") -> None:
        self.name = DeviceId(name)
        self.client = Client(address, name)
        self.client.subscribe(answers(self.name))
        self.open: dict[SampleId, Escalation] = {}
        self.replies: dict[SampleId, Downlink] = {}

    def send(self, e: Escalation) -> Escalation:
        self.open[e.id] = e
        self.client.paho.publish(escalations(self.name), pack_escalation(e), 1)
        return e

    def send_image(self, number: int) -> Escalation:
        return self.send(escalation(payload=Encoder("raw").encode(sure_image(number % 3))))

    def raw(self, payload: bytes) -> None:
        self.client.paho.publish(escalations(self.name), payload, 1)

    def receive(self) -> Downlink:
        """The next reply; raises `queue.Empty` when none comes in time."""
        reply = unpack_downlink(bytes(self.client.next().payload))
        self.replies.setdefault(reply.id, reply)
        self.open.pop(reply.id, None)
        return reply

    def receive_all(self) -> None:
        while self.open:
            self.receive()

    def send_again(self) -> None:
        for e in list(self.open.values()):
            self.send(e)

    def close(self) -> None:
        self.client.disconnect()
