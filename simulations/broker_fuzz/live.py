"""The same packets against a broker process over TCP, beside a canary that must not notice."""

import asyncio
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

from cloud.broker.codec import packets as p
from simulations.broker_chaos.broker_process import HOST, BrokerProcess, free_port
from simulations.broker_fuzz import grammar
from simulations.broker_fuzz.canary import Canary
from simulations.broker_fuzz.client import Wrong
from simulations.broker_fuzz.failures import Failure
from simulations.broker_fuzz.mutations import MUTATIONS
from simulations.broker_fuzz.parts import V5, Draft
from simulations.broker_fuzz.wire import Wire

ATTACKERS: Final = 12
STEPS_MAX: Final = 30
BROKEN_SHARE: Final = 0.1
ANSWER_S_MAX: Final = 10.0
"""From a broken packet to the end of its connection, on a machine that is busy."""
RSS_BYTES_MAX: Final = 200 << 20
"""40 MB of interpreter, 32 MB queued at most and what Python holds beside them."""
OPTIONS: Final = {
    "packet-bytes-max": "100000", "queued-bytes-max": "2000000",
    "queued-bytes-max-total": "32000000", "retained-max": "1000", "receive-maximum": "1000",
    "subscriptions-max": "50", "connects-per-s-max": "100000", "subscribes-per-s-max": "100000",
}  # fmt: skip


@dataclass(slots=True)
class LiveReport:
    """What the live half saw."""

    connections: int = 0
    packets: int = 0
    broken: int = 0
    canary_messages: int = 0
    canary_latency_s_max: float = 0.0
    rss_bytes_max: int = 0
    failures: list[Failure] = field(default_factory=list)


def run_live(seed: int, seconds: float) -> LiveReport:
    """Start a broker, attack it for so long, stop it."""
    with tempfile.TemporaryDirectory(prefix="hybridge-fuzz-") as folder:
        options = {**OPTIONS, "state-dir": folder, "synchronous": "normal"}
        broker = BrokerProcess("embedded", free_port(), Path(folder), options)
        broker.start()
        try:
            report = asyncio.run(_attack(broker, seed, seconds))
        finally:
            broker.stop()
        for line in broker.complaints():
            report.failures.append(Failure(seed, -2, "the broker's log", "live", line, ""))
        return report


async def _attack(broker: BrokerProcess, seed: int, seconds: float) -> LiveReport:
    report = LiveReport()
    ends_at = time.monotonic() + seconds
    canary = Canary(broker.port)
    try:
        async with asyncio.TaskGroup() as parts:
            parts.create_task(canary.run(ends_at))
            parts.create_task(_watch(broker, ends_at))
            for number in range(ATTACKERS):
                parts.create_task(_attacker(broker.port, seed, number, ends_at, report))
    except* (Wrong, OSError) as group:
        for error in group.exceptions:
            what = f"{error!r}; the broker's exit code: {broker.died()}"
            report.failures.append(Failure(seed, -1, "the broker under attack", "live", what, ""))
    report.canary_messages = canary.messages
    report.canary_latency_s_max = canary.latency_s_max
    report.rss_bytes_max = broker.rss_bytes_max
    return report


async def _watch(broker: BrokerProcess, ends_at: float) -> None:
    while time.monotonic() < ends_at:
        if broker.died() is not None:
            raise Wrong(f"the broker ended with code {broker.died()}")
        if broker.rss_bytes() > RSS_BYTES_MAX:
            raise Wrong(f"the broker holds {broker.rss_bytes()} bytes, {RSS_BYTES_MAX} allowed")
        await asyncio.sleep(0.5)


async def _attacker(port: int, seed: int, number: int, ends_at: float, report: LiveReport) -> None:
    connection = 0
    while time.monotonic() < ends_at:
        connection += 1
        rng = Random(f"{seed}/live/{number}/{connection}")
        wire = await Wire.connect(HOST, port)
        client_id = f"f{number}-{number}"  # which no flipped bit makes another attacker's
        attack = _Attack(rng, wire, client_id, report)
        try:
            await attack.run()
        except Wrong as wrong:
            failure = Failure(seed, connection, attack.doing, "live", str(wrong), wire.sent.hex())
            report.failures.append(failure)
        finally:
            report.connections += 1
            await wire.abort()


@dataclass(slots=True)
class _Attack:
    """One connection from CONNECT to its end."""

    rng: Random
    wire: Wire
    client_id: str
    report: LiveReport
    doing: str = ""

    async def run(self) -> None:
        """Send valid packets until one is broken or enough were sent; raises `Wrong`."""
        rng, wire = self.rng, self.wire
        draft = grammar.connect(rng, wire.view, self.client_id)
        for step in range(rng.randint(1, STEPS_MAX)):
            if step:
                draft = grammar.any_packet(rng, wire.view)
            if rng.random() < BROKEN_SHARE:
                await self._break(draft)
                return
            self.doing = f"a valid {draft.name}"
            await self._send(draft.wire())
            if draft.name == "DISCONNECT":
                await _closed(wire)
                return
            if not step:
                await wire.until(p.Connack, ANSWER_S_MAX)
        self.doing = "PINGREQ after valid packets"
        await self._send(grammar.ping(wire.view).wire())
        if wire.view.version == V5:
            await wire.until(p.Pingresp, ANSWER_S_MAX)
        else:  # which a full broker can only tell by closing
            await wire.one(p.Pingresp, ANSWER_S_MAX)

    async def _break(self, draft: Draft) -> None:
        mutation = self.rng.choice(MUTATIONS)
        broken = mutation.make(draft, self.rng, self.wire.view)
        if broken is None:
            return
        self.doing = f"{draft.name}: {mutation.name}"
        self.report.broken += 1
        await self._send(broken)
        if mutation.is_wrong:
            last = await _closed(self.wire)
            if isinstance(last, p.Disconnect) and last.reason not in mutation.reasons:
                raise Wrong(f"told {last.reason:#x}, want one of {sorted(mutation.reasons)}")

    async def _send(self, data: bytes) -> None:
        self.report.packets += 1
        await self.wire.send(data, self.rng)


async def _closed(wire: Wire) -> p.Packet | None:
    """Give the last packet before the broker closed; raises `Wrong` if it does not."""
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            return await wire.last()
    except TimeoutError as error:
        raise Wrong(f"not closed within {ANSWER_S_MAX} s") from error
