"""A whole region with real processes: broker, cloud worker, one agent replaying a data set."""

import asyncio
import signal
import socket
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import numpy as np

from cloud.demo.processes import Running, start
from tests.tiny_bundle import sure_image, unsure_image, write_tiny_bundle

SAMPLES = 600
RATE_PER_S = 150
_QUIET_S = 0.2  # without an answer, then the counts are looked at all the same


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Region:
    """Every process can be killed and started again with the same arguments and files."""

    folder: Path
    broker_port: int = field(default_factory=free_port)
    running: dict[str, Running] = field(default_factory=dict)

    def prepare(self) -> None:
        write_tiny_bundle(self.folder / "edge-bundle")
        write_tiny_bundle(
            self.folder / "cloud-bundle",
            name="tiny-cloud",
            escalates=False,
            answers_for=("tiny-edge",),
        )
        images = [sure_image(n % 3) if n % 2 else unsure_image(n % 200) for n in range(SAMPLES)]
        np.savez(self.folder / "images.npz", images=np.stack(images))
        (self.folder / "agent.toml").write_text(
            'device_id = "cam-1"\nstate_dir = "agent"\nbundle = "edge-bundle"\n'
            f'[uplink]\nurl = "mqtt://127.0.0.1:{self.broker_port}"\n'
            "answer_timeout_s = 1.0\nbackoff_s_min = 0.05\nbackoff_s_max = 0.5\n"
            '[[sources]]\nkind = "replay"\npath = "images.npz"\n'
            f"rate_per_s = {RATE_PER_S}\n"
        )

    def arguments(self, name: str) -> tuple[str, ...]:
        match name:
            case "broker":
                return (
                    "-m", "cloud.broker", "--port", str(self.broker_port),
                    "--state-dir", str(self.folder / "broker"),
                )  # fmt: skip
            case "cloud":
                return (
                    "-m", "cloud", "serve", "--bundle", str(self.folder / "cloud-bundle"),
                    "--state-dir", str(self.folder / "cloud"),
                    "--broker", f"mqtt://127.0.0.1:{self.broker_port}",
                )  # fmt: skip
            case _:
                return ("-m", "edge", "run", "--config", str(self.folder / "agent.toml"))

    async def up(self, name: str) -> None:
        self.running[name] = await start(name, self.arguments(name), self.folder)

    async def kill(self, name: str) -> None:
        await self.running.pop(name).end(signal.SIGKILL)

    async def down(self) -> None:
        for name in ("agent", "cloud", "broker"):
            if name in self.running:
                await self.running.pop(name).end()

    async def until(self, holds: Callable[[dict[str, int]], bool], within_s: float) -> None:
        """Look at the agent's counts after each of its answers, and when it is quiet."""
        url = self.running["agent"].ready["api"]
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(aiohttp.ClientSession())
            stream = await stack.enter_async_context(http.get(f"{url}/v1/answers/stream"))
            asking = await stack.enter_async_context(aiohttp.ClientSession())
            latest: dict[str, object] = {}
            try:
                async with asyncio.timeout(within_s):
                    while True:
                        async with asking.get(f"{url}/v1/status") as response:
                            latest = await response.json()
                        if holds(_counts(latest)):
                            return
                        with suppress(TimeoutError):  # a commit follows its answer by a moment
                            async with asyncio.timeout(_QUIET_S):
                                await stream.content.readline()
            except TimeoutError:
                raise AssertionError(f"not within {within_s} s; last seen: {latest}") from None


def _counts(status: dict[str, object]) -> dict[str, int]:
    outbox, ledger, counters = status["outbox"], status["ledger"], status["counters"]
    assert isinstance(outbox, dict)
    assert isinstance(ledger, dict)
    assert isinstance(counters, dict)
    return {
        "recorded": counters.get("recorded", 0),
        "answered": counters.get("answered", 0),
        "lost": sum(ledger.values()),
        "outbox": outbox["samples"],
    }


def whereabouts(state: Path) -> tuple[Counter[str], int]:
    """How often each of the data set's positions was settled, and what still waits."""
    with sqlite3.connect(state / "state.db") as db:
        settled = Counter(
            position
            for table in ("answers", "ledger")
            for (position,) in db.execute(f"SELECT position FROM {table}")
        )
        (waiting,) = db.execute("SELECT count(*) FROM outbox").fetchone()
    return settled, int(waiting)
