"""Each cell on both brokers in turn, the same bounds for both, clients in a process of their own."""

import asyncio
import contextlib
import dataclasses
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

from cloud.broker.launch import BrokerAddress, broker_running
from cloud.broker.limits import Limits
from cloud.broker.settings import BrokerSettings
from simulations.broker_bench.cells import IDLE_CONNECTIONS, Cell
from simulations.broker_bench.loads import Found

Kind = Literal["embedded", "mosquitto"]
KINDS: tuple[Kind, Kind] = ("embedded", "mosquitto")
Pair = tuple[Found, Found]
"""Of the embedded broker and of Mosquitto, one after the other."""


async def measure(cell: Cell, rounds: int) -> list[Pair]:
    """Run a cell `rounds` times on each broker; who begins changes every time."""
    if cell.needs_fresh_broker:
        found: list[Pair] = []
        for index in range(rounds):
            async with _brokers(cell) as brokers:
                found.append(await _pair(cell, brokers, index))
        return found
    async with _brokers(cell) as brokers:
        return [await _pair(cell, brokers, index) for index in range(rounds)]


@contextlib.asynccontextmanager
async def _brokers(cell: Cell) -> AsyncIterator[dict[Kind, BrokerAddress]]:
    limits = Limits(
        connections_max=2 * IDLE_CONNECTIONS, sessions_max=4 * IDLE_CONNECTIONS,
        connects_per_s_max=IDLE_CONNECTIONS, queued_bytes_max=cell.queued_bytes_max, queued_bytes_max_total=cell.queued_bytes_max,
    )  # fmt: skip
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hybridge-broker-")))
        yield {
            kind: await stack.enter_async_context(
                broker_running(BrokerSettings(kind=kind, state_dir=folder / kind, limits=limits))
            )
            for kind in KINDS
        }


async def _pair(cell: Cell, brokers: dict[Kind, BrokerAddress], index: int) -> Pair:
    order = KINDS if index % 2 == 0 else KINDS[::-1]
    if cell.load.kind == "latency":  # both at once, a message each in turn
        measured = await _run(cell, [brokers[kind] for kind in order])
    else:
        measured = [(await _run(cell, [brokers[kind]]))[0] for kind in order]
    found = dict(zip(order, measured, strict=True))
    return found["embedded"], found["mosquitto"]


async def _run(cell: Cell, brokers: list[BrokerAddress]) -> list[Found]:
    """Raises RuntimeError if the clients' process fails; its words are on stderr."""
    asked = {
        "load": dataclasses.asdict(cell.load),
        "brokers": [(one.host, one.port, one.pid) for one in brokers],
    }
    clients = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "simulations.broker_bench.worker",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await clients.communicate(json.dumps(asked).encode())
    if clients.returncode:
        raise RuntimeError(f"{cell.what}: the clients ended with code {clients.returncode}")
    return [
        Found(**{**values, "by_consumer": tuple(values["by_consumer"])})
        for values in json.loads(said)
    ]
