"""Sends a telemetry report in regular intervals, while there is a link.

Reports are cumulative: one that is skipped takes nothing away. So they give way to escalations, and
none waits for the link to return.
"""

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from edge.agent import Agent
from edge.telemetry.counters import Counters
from edge.telemetry.health import system_health
from edge.telemetry.report import Facts, Moment, report
from edge.uplink.courier import Letter
from edge.uplink.uplink import Uplink
from shared import topics
from shared.backoff import Jitter
from shared.fleet.telemetry import Shadow

_FIRST_S_MAX = 5.0  # of the first report's delay: a fleet that starts together does not report so
_SKIPPED = "telemetry_skipped"


class TelemetryLoop:
    def __init__(
        self,
        agent: Agent,
        uplink: Uplink,
        state_dir: Path,
        interval_s: float,
        shadow: Callable[[], Shadow | None],
        trouble: Callable[[], str],
        counters: Counters,
        rng: Jitter,
    ) -> None:
        self._agent, self._uplink, self._state_dir = agent, uplink, state_dir
        self._shadow, self._trouble = shadow, trouble
        self._counters, self._rng = counters, rng
        self._interval_s = interval_s
        self._topic = topics.telemetry(agent.device_id)
        self._boot, self._sequence = secrets.token_hex(8), 0
        self._began = time.monotonic()
        self._wake = asyncio.Event()
        self._draining = self._owed = False

    def retune(self, interval_s: float) -> None:
        """Seconds between reports; begins anew where it changes."""
        if interval_s != self._interval_s:
            self._interval_s = interval_s
            self._wake.set()

    def came_up(self) -> None:
        """The link is back: what was skipped meanwhile is owed."""
        if self._owed:
            self._wake.set()

    def drain(self) -> None:
        self._draining = True
        self._wake.set()

    async def run(self) -> None:
        pause = self._rng.uniform(0, min(self._interval_s, _FIRST_S_MAX))
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._wake.clear()
            if self._draining:
                return
            await self._report()
            pause = self._interval_s

    async def _report(self) -> None:
        if self._owed_without_link():
            return
        system = await asyncio.to_thread(system_health, self._state_dir)
        tally = self._agent.tally
        if tally is None or self._owed_without_link():
            return
        moment = Moment(
            self._boot, self._sequence, time.time(), time.monotonic() - self._began,
            self._interval_s,
        )  # fmt: skip
        agent = self._agent
        watch = agent.watch
        troubles = (self._trouble(), "" if watch is None else watch.trouble)
        trouble = "; ".join(filter(None, troubles))
        facts = Facts(agent.outbox_depth, agent.counters(), agent.ledger_counts(), trouble)
        sketches = None if watch is None else watch.sketching.document()
        said = report(moment, tally, sketches, self._shadow(), facts, system)
        self._sequence += 1
        if self._uplink.send(Letter(self._topic, said.to_bytes(), expiry_s=self._expiry_s())):
            self._counters.add(_SKIPPED)

    def _owed_without_link(self) -> bool:
        self._owed = not self._uplink.up
        if self._owed:
            self._counters.add(_SKIPPED)
        return self._owed

    def _expiry_s(self) -> int:
        """A region that was away for longer gets the next one."""
        return max(int(self._interval_s), 1)
