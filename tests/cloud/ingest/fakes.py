"""A link in memory, for the seam that `shared.mqtt.link.Link` fills; what goes through it is real."""

import asyncio
from dataclasses import dataclass, field

from shared.errors import Disconnected
from shared.mqtt.link import Delivery
from shared.topics import escalations
from shared.wire.envelope import Downlink, Escalation, pack_escalation, unpack_downlink
from tests.cloud.samples import DEVICE


@dataclass
class FakeLink:
    """Acknowledges publishes at once, or when told to; `acked` are deliveries, in order."""

    window: int = 100
    up: bool = True
    code: int = 0
    holds_pubacks: bool = False
    sent: list[tuple[str, Downlink]] = field(default_factory=list)
    waiting: list["asyncio.Future[int]"] = field(default_factory=list)
    acked: list[str] = field(default_factory=list)

    @property
    def room(self) -> int:
        return self.window - len(self.waiting) if self.up else 0

    def publish(self, topic: str, payload: bytes) -> "asyncio.Future[int]":
        if not self.up:
            raise Disconnected("down")
        assert self.room > 0
        acknowledged: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.sent.append((topic, unpack_downlink(payload)))
        if self.holds_pubacks:
            self.waiting.append(acknowledged)
        else:
            acknowledged.set_result(self.code)
        return acknowledged

    def pubacks(self) -> None:
        waiting, self.waiting = self.waiting, []
        for acknowledged in waiting:
            acknowledged.set_result(self.code)

    def go_down(self) -> None:
        self.up = False
        waiting, self.waiting = self.waiting, []
        for acknowledged in waiting:
            acknowledged.set_exception(Disconnected("lost"))

    def delivery(self, name: str, e: Escalation) -> Delivery:
        return self.raw(name, escalations(DEVICE), pack_escalation(e))

    def raw(self, name: str, topic: str, payload: bytes) -> Delivery:
        return Delivery(topic, payload, lambda: self.acked.append(name))

    def replies(self) -> list[Downlink]:
        return [reply for _, reply in self.sent]
