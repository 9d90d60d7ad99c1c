"""What the connections of one fast lane share, and the clock that tidies up after them."""

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import TYPE_CHECKING

from cloud.api.fast_lane.head import Heads
from cloud.api.fast_lane.kept import KeptCalls
from cloud.api.fast_lane.refusals import Refusals, Written
from cloud.api.problems import SlowBody
from cloud.api.settings import Api

if TYPE_CHECKING:
    from cloud.api.app import ApiServer, Parts
    from cloud.api.fast_lane.connection import Connection

_TICK_S = 1.0


class Lane:
    def __init__(
        self,
        settings: Api,
        parts: "Parts",
        server: "ApiServer",
        hand_over: Callable[[], asyncio.Protocol],
    ) -> None:
        """`server` is aiohttp's side; `hand_over` makes its protocol for one connection."""
        self.settings, self.hand_over = settings, hand_over
        self.pool, self.gateway = parts.pool, parts.gateway
        self.experiments = parts.experiments or None  # without any there is nothing to ask
        self.record = server.record
        self.bounds, self._refusals = server.connections, Refusals(server.counter_of)
        self.heads, self.calls = Heads(), KeptCalls(settings.calls, parts.inference.guard)
        self.connections: set[Connection] = set()
        self.closing = False
        """From now on each answer is its connection's last."""
        self.date = b""
        self.now = time.monotonic()  # to the second, for idle times
        self._tick: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._on_tick()

    def stop(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
        for connection in tuple(self.connections):
            connection.abort()

    def refusal(self, error: Exception, request_id: str) -> Written:
        return self._refusals.write(error, request_id, self.now)

    def slow_body(self) -> SlowBody:
        return SlowBody(f"the body was not there after {self.settings.body_s_max:g} s")

    def _on_tick(self) -> None:
        self.date = f"Date: {formatdate(usegmt=True)}\r\n".encode()
        self.now = time.monotonic()
        self.record.flush()
        for connection in tuple(self.connections):
            connection.tidy(self.now)
        self._tick = asyncio.get_running_loop().call_later(_TICK_S, self._on_tick)
