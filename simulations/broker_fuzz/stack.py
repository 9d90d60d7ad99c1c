"""The broker's pure cores in this process, fed with bytes, and every answer judged.

A `Stack` is one router and a few client slots; a `Slot` is one connection with its parser. What
must never happen raises `Wrong`: an exception that is not `BrokenRule`, an answer that the
specification does not allow, a step that takes or holds too much.
"""

import time
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from cloud.broker.codec.packets import Connack, Disconnect, Packet, Version
from cloud.broker.codec.parser import Parser
from cloud.broker.codec.reasons import BrokenRule
from cloud.broker.connection.connection import Connection
from cloud.broker.limits import Limits
from cloud.broker.router.router import Router
from cloud.broker.session.changes import Changes
from cloud.broker.session.restore import last_id, restored
from simulations.broker_fuzz.client import ClientView, Wrong
from simulations.broker_fuzz.parts import V5
from simulations.broker_fuzz.shadow import Shadow

PACKET_BYTES_MAX: Final = 100_000
STEP_CPU_S_MAX: Final = 0.05
PLENTY: Final = 1 << 30
_WANTED: Final = {
    "packet_bytes_max": PACKET_BYTES_MAX, "queued_bytes_max": 400_000,
    "queued_bytes_max_total": 1_000_000, "sessions_max": 40, "subscriptions_max": 30,
    "retained_max": 50, "retained_bytes_max": 100_000, "receive_maximum": 64,
    "connects_per_s_max": 1_000_000, "subscribes_per_s_max": 1_000_000,
}  # fmt: skip
LIMITS: Final = Limits(
    **{one.name: _WANTED[one.name] for one in fields(Limits) if one.name in _WANTED}
)

CONNACK_REASONS: Final = frozenset({
    0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90, 0x95, 0x97,
    0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F,
})  # fmt: skip
"""Refusals of table 3-1."""
DISCONNECT_REASONS: Final = frozenset({
    0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x90, 0x93, 0x94, 0x95, 0x96,
    0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2,
})  # fmt: skip
"""What a server may say in DISCONNECT (table 3-13)."""


class Slot:
    """One connection to the stack's broker."""

    def __init__(self, router: Router) -> None:
        """Open it; a CONNECT is due."""
        self.parser = Parser(LIMITS.packet_bytes_max)
        self.is_woken = False
        """It asked to be read since it last was."""
        self.connection = Connection(router, self._wake)
        self.view = ClientView()
        self.sent: list[bytes] = []
        self.answers: Parser | None = None

    def _wake(self) -> None:
        self.is_woken = True

    def feed(self, segments: Sequence[bytes], now: float) -> BrokenRule | None:
        """Feed bytes as they come from a socket; gives the rule they broke."""
        for segment in segments:
            self.sent.append(segment)
            began = time.thread_time()
            error = self._feed(segment, now)
            took_s = time.thread_time() - began
            if took_s > STEP_CPU_S_MAX:
                raise Wrong(f"{len(segment)} bytes took {took_s * 1e3:.0f} ms of CPU")
            held = self.parser.held_bytes
            if held > PACKET_BYTES_MAX:
                raise Wrong(f"the parser holds {held} bytes, {PACKET_BYTES_MAX} allowed")
            if error is not None:
                return error
        return None

    def _feed(self, segment: bytes, now: float) -> BrokenRule | None:
        if self.connection.is_closing:
            return None
        self.is_woken = True  # a shell writes after every read
        try:
            for packet in self.parser.feed(segment):
                self.connection.receive(packet, now)
                if self.connection.is_closing:
                    break
        except BrokenRule as error:
            return error
        return None

    def read(self, now: float) -> list[Packet]:
        """Take what the broker has to say to this client, judged packet by packet."""
        self.is_woken = False
        data = b"".join(self.connection.collect(now, PLENTY))
        if data == b"\x20\x02\x00\x01":
            return [Connack(session_present=False, reason=0x84)]
        if self.answers is None:
            self.answers = Parser(PLENTY, Version(self.view.version))
        out: list[Packet] = []
        at = 0
        try:
            while at < len(data):
                end = at + _size(data, at)
                for packet in self.answers.feed(data[at:end]):
                    self.view.take(packet, end - at)
                    out.append(packet)
                at = end
        except BrokenRule as error:
            raise Wrong(f"the broker's own bytes are no packets: {error}") from error
        return out

    def refuse(self, error: BrokenRule, now: float) -> None:
        """Let the connection say good-bye; raises `Wrong` unless it does so by the book."""
        was_connected = self.view.is_connected
        if not was_connected and error.version is not None:
            self.view.version = error.version  # of a CONNECT whose bits were flipped
        self.connection.fail(error, now)
        told = self.read(now)
        if not self.connection.is_closing:
            raise Wrong(f"after {error} the connection is still open")
        last = told[-1] if told else None
        v5 = self.view.version == V5
        if isinstance(last, Disconnect):
            if last.reason != error.reason or last.reason not in DISCONNECT_REASONS:
                raise Wrong(f"{error} was told as {last}")
        elif isinstance(last, Connack) and last.reason:
            legal = CONNACK_REASONS if v5 else frozenset((1, 2, 3, 4, 5, 0x84))
            if last.reason not in legal or last.session_present:
                raise Wrong(f"{error} was told as {last}")
        elif was_connected and v5:
            raise Wrong(f"{error} was not told; the last packet was {last}")
        if self.connection.collect(now, PLENTY):
            raise Wrong("it goes on after its good-bye")


def _size(data: bytes, at: int) -> int:
    """Length of the packet at a place, from its fixed header."""
    length = shift = 0
    for index in range(1, 5):
        byte = data[at + index]
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return 1 + index + length
    raise Wrong("the broker sent a remaining length of five bytes")


class Stack:
    """A broker without a network."""

    def __init__(self, client_count: int, *, is_durable: bool = False) -> None:
        """Start it without connections; durable: beside a store that commits when told."""
        self._names = 0
        self._changes = Changes() if is_durable else None
        self._shadow = Shadow()
        self.router = Router(LIMITS, self._name, self._changes)
        self.slots: list[Slot | None] = [None] * client_count
        self.now = 0.0

    def _name(self) -> str:
        self._names += 1
        return f"made-up-{self._names}"

    def pass_time(self, seconds: float) -> None:
        """Let sessions and wills become due."""
        self.now += seconds
        self.router.expire(self.now)

    def commit(self) -> None:
        """Let the store do a bit of its work."""
        if self._changes is not None:
            self._shadow.advance(self._changes, self.now)

    def crash(self) -> None:
        """End as kill -9 does, and start again with what the store holds."""
        if self._changes is None:
            return
        self.slots = [None] * len(self.slots)
        self._shadow.crash()
        snapshot = self._shadow.snapshot()
        self._changes = Changes(last_id(snapshot))
        self.router = Router(LIMITS, self._name, self._changes)
        found = restored(
            snapshot, self._changes, LIMITS, self.router.budget, self.now, self.now
        )  # fmt: skip
        self.router.adopt(found.sessions, found.retained, self.now)
        check_books(self.router)

    def settle(self) -> None:
        """Let the store finish, then every client read: nothing may be kept back for ever."""
        for _ in range(4):
            self.commit()
        self.deliver()
        for slot in self.slots:
            if slot is None or slot.is_woken:
                continue
            if slot.connection.has_more:
                raise Wrong("it has something to say and did not ask to be read")
            waiting = len(slot.connection._output)  # noqa: SLF001  what it waits for is its own
            if waiting:
                raise Wrong(f"{waiting} acknowledgements wait, and the store has nothing to do")

    def deliver(self) -> None:
        """Have every client that asks for it read what is for it."""
        for index, slot in enumerate(self.slots):
            if slot is not None and slot.is_woken:
                slot.read(self.now)
                if slot.connection.is_closing:
                    self.slots[index] = None

    def end(self) -> None:
        """Break all connections and let all sessions end: nothing may be left or owed."""
        for index, slot in enumerate(self.slots):
            if slot is not None:
                slot.connection.lost(self.now)
                self.slots[index] = None
        check_books(self.router)
        self.pass_time(1e9)
        self.pass_time(1e9)
        if self.router.sessions:
            raise Wrong(f"sessions outlive their expiry: {list(self.router.sessions)}")
        if self.router.budget.used_bytes:
            raise Wrong(f"no session is left, {self.router.budget.used_bytes} bytes are owed")
        if self._changes is not None:
            for _ in range(4):
                self.commit()
            self._shadow.expect_only_retained()
        root: Any = self.router.tree._root  # noqa: SLF001  nothing public tells what it holds
        if not root.is_empty:
            raise Wrong("no session is left, but the tree of subscriptions is not empty")


def check_books(router: Router) -> None:
    """Raise `Wrong` unless the bytes on the books are those of what waits."""
    total = 0
    for session in router.sessions.values():
        waiting = [*session.queue, *session.queue_qos_0]
        waiting += [one.delivery for one in session.inflight.values() if one.delivery is not None]
        held = sum(delivery.size_bytes for delivery in waiting)
        if held != session.held_bytes:
            raise Wrong(f"{session.client_id}: {held} bytes wait, {session.held_bytes} counted")
        total += held
    if total != router.budget.used_bytes:
        raise Wrong(f"{total} bytes wait in all, {router.budget.used_bytes} counted")
    if total > LIMITS.queued_bytes_max_total + PACKET_BYTES_MAX:
        raise Wrong(f"{total} bytes wait, {LIMITS.queued_bytes_max_total} allowed")
