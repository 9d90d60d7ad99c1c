"""A region that stays up for a whole module of tests, driven from plain functions."""

import asyncio
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cloud.broker.launch import BrokerAddress
from tests.brokers import Client
from tests.end_to_end.region import Region
from tests.tiny_bundle import sure_image, unsure_image

WAIT_S = 20.0
INFER = "/v2/models/tiny-edge/infer"
_LOOK_S = 0.02


def request(images: NDArray[Any], **changes: object) -> dict[str, object]:
    tensor = {
        "name": "image", "datatype": "UINT8", "shape": list(images.shape),
        "data": images.ravel().tolist(),
    }  # fmt: skip
    return {"inputs": [{**tensor, **changes}]}


@dataclass(frozen=True)
class Reply:
    status: int
    document: dict[str, Any]

    def output(self, name: str) -> Any:
        return next(o["data"][0] for o in self.document["outputs"] if o["name"] == name)


@dataclass
class Site:
    region: Region
    runner: asyncio.Runner
    _read: dict[str, int] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return self.region.folder

    def configure(self, more: str) -> None:
        """`more`: tables for the end of the agent's settings, in place of its replay."""
        self.region.prepare()
        file = self.folder / "agent.toml"
        text = file.read_text()
        file.write_text(text[: text.index("[[sources]]")] + more)

    def up(self, *names: str) -> None:
        for name in names:
            self.runner.run(self.region.up(name))

    def down(self, name: str) -> int:
        return self.runner.run(self.region.running.pop(name).end())

    def kill(self, name: str) -> None:
        self.runner.run(self.region.kill(name))

    def refused(self, name: str) -> str:
        """Start a process that must not start; its last words, beside which all is well."""

        async def ended() -> tuple[int, bytes, bytes]:
            process = await asyncio.create_subprocess_exec(
                sys.executable, *self.region.arguments(name),
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            async with asyncio.timeout(WAIT_S):
                out, err = await process.communicate()
            assert process.returncode is not None
            return process.returncode, out, err

        code, out, err = self.runner.run(ended())
        *before, last = err.decode().splitlines()
        assert (code, out) == (1, b""), err.decode()
        assert all(json.loads(line)["level"] == "info" for line in before), err.decode()
        return last

    # Asking

    def port(self, name: str) -> int:
        if name == "broker":
            return self.region.broker_port
        return int(self.region.running[name].ready["api"].rsplit(":", 1)[1])

    def ask(
        self,
        path: str,
        body: object = None,
        *,
        of: str = "agent",
        headers: dict[str, str] | None = None,
    ) -> Reply:
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        asked = urllib.request.Request(
            f"http://127.0.0.1:{self.port(of)}{path}", content, headers or {}
        )
        try:
            with urllib.request.urlopen(asked, timeout=WAIT_S) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                status, text = error.code, error.read()
        return Reply(status, json.loads(text))

    def final(self, sample: str) -> dict[str, Any]:
        until = time.monotonic() + WAIT_S
        while time.monotonic() < until:
            reply = self.ask(f"/v1/answers/{sample}?wait_ms=1000")
            if reply.status == 200:
                return reply.document
        raise AssertionError(f"no final answer to {sample}")

    def sends(self, image: NDArray[Any]) -> str:
        """The id of a sample that the agent took."""
        reply = self.ask(INFER, request(image[None]))
        assert reply.status == 200, reply.document
        return str(reply.output("sample_id"))

    def good(self) -> None:
        """A sample of each kind is answered: by the edge alone, and by the cloud."""
        sure = self.final(self.sends(sure_image(1)))
        assert (sure["label"], sure["source"]) == ("class-1", "edge")
        unsure = self.final(self.sends(unsure_image(90)))
        assert (unsure["source"], unsure["given_up"]) == ("cloud", "")

    # Counting

    def counters(self) -> dict[str, int]:
        return dict(self.ask("/v1/status").document["counters"])

    def ledger(self) -> dict[str, int]:
        return dict(self.ask("/v1/status").document["ledger"])

    def cloud(self, metric: str) -> float:
        """A sample of the cloud's metrics by its whole name; 0 where there is none."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port('cloud')}/metrics") as response:
            lines = response.read().decode().splitlines()
        found = [line for line in lines if line.rsplit(" ", 1)[0] == metric]
        return float(found[0].rsplit(" ", 1)[1]) if found else 0.0

    def until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + WAIT_S
        while not holds():
            assert time.monotonic() < until, self.ask("/v1/status").document
            time.sleep(_LOOK_S)

    def new_lines(self, name: str) -> list[dict[str, Any]]:
        """What a process logged since this was last asked."""
        content = (self.folder / f"{name}.log").read_bytes()
        start = self._read.get(name, 0)
        self._read[name] = len(content)
        return [json.loads(line) for line in content[start:].decode().splitlines()]

    def client(self, name: str) -> Client:
        died = self.runner.get_loop().create_future()
        return Client(BrokerAddress("127.0.0.1", self.region.broker_port, died), name)


@contextmanager
def open_site(folder: Path) -> Iterator[Site]:
    with asyncio.Runner() as runner:
        site = Site(Region(folder), runner)
        try:
            yield site
        finally:
            runner.run(site.region.down())


def images(count: int) -> NDArray[np.uint8]:
    return np.stack([sure_image(n % 3) for n in range(count)])
