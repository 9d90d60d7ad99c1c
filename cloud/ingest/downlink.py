"""Publish answers through a link whose window may be smaller than what is in hand.

Bounded by the caller: one message for each unacknowledged delivery at most.
"""

import asyncio
from collections import deque
from functools import partial
from typing import Protocol

from shared.errors import Disconnected


class Publishes(Protocol):
    """The part of `shared.mqtt.link.Link` that is needed here."""

    @property
    def up(self) -> bool: ...

    @property
    def room(self) -> int: ...

    def publish(self, topic: str, payload: bytes) -> "asyncio.Future[int]": ...


class Downlink:
    def __init__(self) -> None:
        self._link: Publishes | None = None
        self._waiting: deque[tuple[str, bytes, asyncio.Future[int]]] = deque()

    def through(self, link: Publishes) -> None:
        """The link, which needs the inbox, which needs this first."""
        self._link = link

    def send(self, topic: str, payload: bytes) -> "asyncio.Future[int]":
        """PUBACK's reason code, in time; fails with `Disconnected` when the link goes first."""
        sent: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((topic, payload, sent))
        self._pump()
        return sent

    def lost(self) -> None:
        """The link is down: nothing that waits may outlive the deliveries it answers."""
        waiting, self._waiting = self._waiting, deque()
        for _, _, sent in waiting:
            if not sent.done():
                sent.set_exception(Disconnected("the link was lost before the answer left"))

    def _pump(self) -> None:
        link = self._link
        if link is None or not link.up:
            self.lost()
            return
        while self._waiting and link.room:
            topic, payload, sent = self._waiting.popleft()
            try:
                acknowledged = link.publish(topic, payload)
            except Disconnected as error:
                sent.set_exception(error)
                continue
            acknowledged.add_done_callback(partial(self._done, sent))

    def _done(self, sent: "asyncio.Future[int]", acknowledged: "asyncio.Future[int]") -> None:
        if not sent.done():
            error = acknowledged.exception()
            if error is None:
                sent.set_result(acknowledged.result())
            else:
                sent.set_exception(error)
        if self._waiting:
            self._pump()
