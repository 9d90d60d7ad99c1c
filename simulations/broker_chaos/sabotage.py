"""A broker with one fault: `python -m simulations.broker_chaos.sabotage FAULT [broker's options]`.

A check that no fault can fail is no check: each fault here must be found by the one named beside it
(`FOUND_BY`). Faults are put into the broker's classes from outside; nothing of this is in the broker.
"""

import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from cloud.broker.__main__ import main
from cloud.broker.access.rules import Rules
from cloud.broker.connection.output import Output
from cloud.broker.router.retained import RetainedMessages
from cloud.broker.router.router import Router
from cloud.broker.session.messages import Commit, Delivery, Drop, Kept
from cloud.broker.session.outgoing import Outgoing
from cloud.broker.store.database import Database


class _Every:
    """True once in so many calls."""

    def __init__(self, count: int) -> None:
        self._count, self._calls = count, 0

    def __call__(self) -> bool:
        self._calls += 1
        return self._calls % self._count == 0


def lose_some() -> None:
    """Take a delivery of QoS 1 and forget it."""
    offer, now_and_then = Outgoing.offer, _Every(53)

    def broken(self: Outgoing, delivery: Delivery, now: float) -> Drop | None:
        if delivery.qos == 1 and now_and_then():
            return None
        return offer(self, delivery, now)

    Outgoing.offer = broken  # type: ignore[method-assign]  # the fault


def deliver_twice() -> None:
    """Send a QoS 2 message under two packet identifiers."""
    offer, now_and_then = Outgoing.offer, _Every(53)

    def broken(self: Outgoing, delivery: Delivery, now: float) -> Drop | None:
        if delivery.qos == 2 and now_and_then():
            offer(self, replace(delivery), now)
        return offer(self, delivery, now)

    Outgoing.offer = broken  # type: ignore[method-assign]  # the fault


def push_in() -> None:
    """Let a delivery go before those that wait already."""
    offer, now_and_then = Outgoing.offer, _Every(7)

    def broken(self: Outgoing, delivery: Delivery, now: float) -> Drop | None:
        why = offer(self, delivery, now)
        if why is None and delivery.qos and now_and_then():
            self.queue.rotate(1)
        return why

    Outgoing.offer = broken  # type: ignore[method-assign]  # the fault


def acknowledge_early() -> None:
    """Say that things are on disk which are not, on a slow disk."""
    write = Database.write

    def broken(self: Database, batch: Any) -> None:
        time.sleep(3.0)
        write(self, batch)

    Database.write = broken  # type: ignore[method-assign]  # the fault
    for promise in (Commit, Kept):
        setattr(promise, "holds", property(lambda _: True, lambda *_: None))  # noqa: B010  a slot


def keep_old_values() -> None:
    """Keep a retained message where a new one should replace it."""
    store, now_and_then = RetainedMessages.store, _Every(3)

    def broken(self: RetainedMessages, message: Any, now: float) -> bool:
        return now_and_then() or store(self, message, now)

    RetainedMessages.store = broken  # type: ignore[method-assign]  # the fault


def allow_everything() -> None:
    """Read the ACL and pay no heed to it."""
    Rules.may_publish = lambda *_: True  # type: ignore[method-assign]  # the fault
    Rules.reading = lambda *_: ()  # type: ignore[method-assign]  # the fault


def forget_sessions() -> None:
    """Start anew where a session should go on."""
    open_ = Router.open

    def broken(self: Router, *rest: Any, **named: Any) -> Any:
        return open_(self, *rest, **{**named, "clean": True})

    Router.open = broken  # type: ignore[method-assign]  # the fault


def swallow_wills() -> None:
    """Publish no will."""

    def broken(self: Router, session: Any, now: float) -> None:
        del self, now
        session.set_will(None)

    Router._publish_will = broken  # type: ignore[method-assign]  # noqa: SLF001  the fault


def say_every_will() -> None:
    """Publish the will of a client that said good-bye."""
    close = Router.close

    def broken(self: Router, session: Any, now: float, *, publish_will: bool) -> None:
        del publish_will
        close(self, session, now, publish_will=True)

    Router.close = broken  # type: ignore[method-assign]  # the fault


def drop_in_silence() -> None:
    """Count nothing of what does not fit."""

    def broken(self: Outgoing, delivery: Delivery, now: float) -> bool:
        return self.offer(delivery, now) is None

    Outgoing.enqueue = broken  # type: ignore[method-assign]  # the fault


def keep_back_answers() -> None:
    """Leave out a PUBACK now and then, for ever."""
    answer, now_and_then = Output.answer, _Every(200)

    def broken(self: Output, packet: bytes, *rest: Any, **named: Any) -> None:
        if packet[0] != 0x40 or not now_and_then():
            answer(self, packet, *rest, **named)

    Output.answer = broken  # type: ignore[method-assign]  # the fault


def leak() -> None:
    """Keep something of every message for ever."""
    publish, kept = Router.publish, []

    def broken(self: Router, message: Any, now: float) -> int:
        kept.append(bytearray(b"x") * 500_000)
        return publish(self, message, now)

    Router.publish = broken  # type: ignore[method-assign]  # the fault


def die() -> None:
    """End the process all by itself."""
    publish, now_and_then = Router.publish, _Every(1_000)

    def broken(self: Router, message: Any, now: float) -> int:
        if now_and_then():
            os._exit(3)
        return publish(self, message, now)

    Router.publish = broken  # type: ignore[method-assign]  # the fault


FAULTS: Final[dict[str, Callable[[], None]]] = {
    one.__name__: one
    for one in (
        lose_some, deliver_twice, push_in, acknowledge_early, keep_old_values, allow_everything,
        forget_sessions, swallow_wills, say_every_will, drop_in_silence, keep_back_answers, leak, die,
    )
}  # fmt: skip
FOUND_BY: Final[dict[str, frozenset[str]]] = {
    "lose_some": frozenset({"QoS 1 acknowledged", "share group"}),
    "deliver_twice": frozenset({"QoS 2 completed"}),
    "push_in": frozenset({"order"}),
    "acknowledge_early": frozenset({"QoS 1 acknowledged"}),
    "keep_old_values": frozenset({"retained"}),
    "allow_everything": frozenset({"ACL: nothing", "ACL: SUBSCRIBE"}),
    "forget_sessions": frozenset({"durable sessions"}),
    "swallow_wills": frozenset({"wills"}),
    "say_every_will": frozenset({"wills"}),
    "drop_in_silence": frozenset({"slow reader"}),
    "keep_back_answers": frozenset({"every publish answered"}),
    "leak": frozenset({"broker"}),
    "die": frozenset({"broker"}),
}
"""The beginnings of the names of the checks that must fail, by fault."""


if __name__ == "__main__":
    FAULTS[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
