"""One request of the fast lane, from its head to its answer."""

import time
from typing import TYPE_CHECKING

from cloud.api.fast_lane.head import Head
from cloud.api.fast_lane.kept import Kept
from cloud.api.fast_lane.name import Name
from cloud.experiments.arm import ArmCounts
from cloud.gateway.caller import Caller
from cloud.gateway.roles import Role
from cloud.serving.inference import Answer, Ask
from cloud.serving.job import Priority, Rows
from cloud.serving.served import Served

if TYPE_CHECKING:
    from cloud.api.fast_lane.connection import Connection
    from cloud.api.fast_lane.lane import Lane


class FastRequest(Ask):
    """`admit` and `ask`; it answers, or refuses, through its connection. All may raise."""

    __slots__ = (
        "_arm", "_arrived", "_caller", "_connection", "_decode_s", "_kept", "_lane", "_left", "_name",
        "_network_s",
    )  # fmt: skip

    def __init__(
        self, connection: "Connection", lane: "Lane", name: Name, began: float, now: float
    ) -> None:
        """`began`: when its first byte came; `now`: when it was whole."""
        self._connection, self._lane, self._name = connection, lane, name
        self._network_s, self._arrived = now - began, now
        self._decode_s = 0.0
        self._caller: Caller | None = None
        self._left = False
        self._arm: ArmCounts | None = None

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

    def find(self, head: Head) -> Served:
        """Who answers; raises what `ModelPool.find` raises, or `Malformed`."""
        experiments = self._lane.experiments
        if experiments is not None and head.version is None:
            unit = head.unit or (None if self._caller is None else self._caller.identity)
            if (placed := experiments.place(head.model, unit)) is not None:
                self.served, self._arm = placed.served, placed.arm
                return placed.served
        served = self.served = self._lane.pool.find(head.model, head.version)
        return served

    def ask(self, kept: Kept, rows: Rows) -> None:
        asked = kept.asked  # what `Ask` and `Job` set, without the calls: this is the hot path
        self.rows, self.added = rows, 0.0
        self.deadline, self.priority = self._arrived + asked.within_s, asked.priority
        self._kept = kept
        if (more := len(rows) - 1) and self._caller is not None:
            self._caller.spend(self._arrived, more)  # rates count rows
        self._decode_s = time.monotonic() - self._arrived
        kept.guard.submit(self)

    def give_up(self) -> None:
        """The other lane takes it from its beginning, and counts it."""
        if self._caller is not None:
            self._caller.unspend()
        self.leave()

    def leave(self) -> None:
        """The client has: nothing need be computed."""
        self._left = True
        self._end()

    def reply(self, answer: Answer) -> None:
        if self._left:
            return
        began = time.monotonic()
        head, body = self._kept.written(answer)
        caller = self._end()
        self._connection.respond(head, self._name, body)
        ended = time.monotonic()
        if self._arm is not None:
            self._arm.answered(answer.outputs, ended - self._arrived)
        took_s = (self._network_s, self._decode_s, ended - began, ended - self._arrived)
        request_id, traceparent, _ = self._name
        self._lane.record.answered(
            self.served, self.rows, self.priority, answer, took_s, request_id, traceparent, caller
        )

    def refuse(self, error: Exception) -> None:
        if self._left:
            return
        caller = self._end()
        lane, (request_id, traceparent, _) = self._lane, self._name
        head, body = lane.refusal(error, request_id)
        if self._arm is not None:
            self._arm.did_not_answer()
        if (served := getattr(self, "served", None)) is not None:
            took_s = time.monotonic() - self._arrived
            lane.record.failed(
                served,
                getattr(self, "priority", Priority.INTERACTIVE),
                error,
                took_s,
                request_id,
                traceparent,
                caller,
            )
        self._connection.respond(head, self._name, body)

    def _end(self) -> str:
        """The caller's identity, who may send another one now."""
        caller, self._caller = self._caller, None
        if caller is None:
            return "anonymous"
        caller.end()
        return caller.identity
