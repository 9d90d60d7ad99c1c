"""One request of the fast lane, from its head to its answer."""

import time
from typing import TYPE_CHECKING

from cloud.api.fast_lane.head import Head
from cloud.api.fast_lane.kept import Kept
from cloud.api.fast_lane.name import Name
from cloud.gateway.caller import Caller
from cloud.gateway.roles import Role
from cloud.serving.inference import Answer, Ask
from cloud.serving.job import Rows
from cloud.serving.served import Served

if TYPE_CHECKING:
    from cloud.api.fast_lane.connection import Connection
    from cloud.api.fast_lane.lane import Lane


class FastRequest(Ask):
    """`admit` and `ask`; it answers, or refuses, through its connection. All may raise."""

    __slots__ = (
        "_arrived", "_caller", "_connection", "_decode_s", "_kept", "_lane", "_left", "_name",
    )  # fmt: skip

    def __init__(self, connection: "Connection", lane: "Lane", name: Name, now: float) -> None:
        self._connection, self._lane, self._name = connection, lane, name
        self._arrived = now
        self._decode_s = 0.0
        self._caller: Caller | None = None
        self._left = False

    @property
    def gone(self) -> bool:
        return self._left

    def admit(self, head: Head) -> None:
        """Raises `NotTrusted`, `Forbidden`, `RateLimited` or `TooLarge`."""
        gateway, now = self._lane.gateway, self._arrived
        if gateway is None:
            return
        caller = gateway.admit(head.authorization, head.api_key, now, self._connection.address)
        caller.require(Role.INFER)
        caller.check_body(head.length)
        caller.spend(now)
        caller.begin()
        self._caller = caller

    def ask(self, served: Served, kept: Kept, rows: Rows) -> None:
        asked = kept.asked  # what `Ask` and `Job` set, without the calls: this is the hot path
        self.served, self.rows, self.added = served, rows, 0.0
        self.deadline, self.priority = self._arrived + asked.within_s, asked.priority
        self._kept = kept
        decode_s = self._decode_s = time.monotonic() - self._arrived
        self._lane.stage["decode"].observe(decode_s)
        self._lane.inference.submit(self)

    def leave(self) -> None:
        """The client has: nothing need be computed."""
        self._left = True
        self._end()

    def reply(self, answer: Answer) -> None:
        if self._left:
            return
        lane, began = self._lane, time.monotonic()
        head, body = self._kept.written(answer)
        self._end()
        self._connection.respond(head, self._name, body)
        ended = time.monotonic()
        stage = lane.stage
        stage["queue"].observe(answer.queue_s)
        stage["model"].observe(answer.run_s)
        stage["encode"].observe(ended - began)
        lane.statistics.answered(
            self.served.name, self.served.version, len(self.rows), answer.source, lane.wall,
            total_s=ended - self._arrived, decode_s=self._decode_s, queue_s=answer.queue_s,
            run_s=answer.run_s, encode_s=ended - began,
        )  # fmt: skip

    def refuse(self, error: Exception) -> None:
        if self._left:
            return
        self._end()
        lane, name = self._lane, self._name
        head, body = lane.problem(error, name.request_id)
        if (served := getattr(self, "served", None)) is not None:
            took_s = time.monotonic() - self._arrived
            lane.statistics.failed(served.name, served.version, took_s)
        self._connection.respond(head, name, (body,))

    def _end(self) -> None:
        caller, self._caller = self._caller, None
        if caller is not None:
            caller.end()
