"""What the connections of one fast lane share, and the clock that tidies up after them."""

import asyncio
import logging
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import TYPE_CHECKING

from cloud.api.fast_lane.head import Heads
from cloud.api.fast_lane.kept import KeptCalls
from cloud.api.fast_lane.name import Name
from cloud.api.problems import SlowBody, problem_of
from cloud.api.settings import Api
from shared.errors import HybridgeError
from shared.logs import OncePer

if TYPE_CHECKING:
    from cloud.api.app import ApiServer, Parts
    from cloud.api.fast_lane.connection import Connection

log = logging.getLogger(__name__)

_TICK_S = 1.0
_LOG_PERIOD_S = 60.0


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
        self.record = server.record
        self.bounds, self._count = server.connections, server.count
        self.heads, self.calls = Heads(), KeptCalls(settings.calls, parts.inference.guard)
        self.connections: set[Connection] = set()
        self.closing = False
        """From now on each answer is its connection's last."""
        self.date = b""
        self.now = time.monotonic()  # to the second, for idle times
        self._once = OncePer(_LOG_PERIOD_S)
        self._tick: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._on_tick()

    def stop(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
        for connection in tuple(self.connections):
            connection.abort()

    def problem(self, error: Exception, request_id: str) -> tuple[bytes, bytes]:
        """Head, without the fields that every answer has, and body; counted."""
        problem = problem_of(error)
        self._count(problem)
        if not isinstance(error, HybridgeError):
            log.error("request_failed", extra={"request_id": request_id}, exc_info=error)
        held_back = self._once.admits(f"{problem.status} {problem.kind}", self.now)
        if held_back is not None:
            log.warning(
                "request_refused",
                extra={
                    "status": problem.status.value, "kind": problem.kind, "request_id": request_id,
                    "why": problem.detail[:300], "more_since_last": held_back,
                },
            )  # fmt: skip
        body = problem.body(request_id)
        fields = "".join(f"{name}: {text}\r\n" for name, text in problem.headers.items())
        head = (
            f"HTTP/1.1 {problem.status.value} {problem.status.phrase}\r\n{fields}"
            f"Content-Length: {len(body)}\r\n"
        )
        return head.encode(), body

    def slow_body(self, name: Name) -> tuple[bytes, Name, tuple[bytes]]:
        error = SlowBody(f"the body was not there after {self.settings.body_s_max:g} s")
        head, body = self.problem(error, name.request_id)
        return head, name, (body,)

    def _on_tick(self) -> None:
        self.date = f"Date: {formatdate(usegmt=True)}\r\n".encode()
        self.now = time.monotonic()
        for connection in tuple(self.connections):
            connection.tidy(self.now)
        self._tick = asyncio.get_running_loop().call_later(_TICK_S, self._on_tick)
