"""A client over `Connection`, without a socket: late, forgetful, and by the rules (4.3, 4.4).

It tells the reference what leaves the broker and what comes back to it.
"""

from typing import Literal

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from cloud.broker.codec.parser import Parser
from cloud.broker.connection.connection import Connection
from cloud.broker.router.router import Router
from tests.cloud.broker.router.reference import Owed, Reference
from tests.raw_client import props

PLENTY = 1 << 30


class Driver:
    """One client and its state, which outlives its connections as its session does."""

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id
        self.connection: Connection | None = None
        self.version = Version.V5
        self.window = 0
        self.is_woken = False
        self.flight: set[int] = set()
        """Packet ids received on this connection and not acknowledged to the end."""
        self.unanswered: dict[int, p.Publish] = {}
        self.releases: list[int] = []
        """PUBRELs to answer."""
        self.open: dict[int, int] = {}
        """Messages received with QoS 2, until PUBREL."""
        self.outgoing: dict[int, tuple[p.Publish, Literal["publish", "release"]]] = {}
        self._parser = Parser(PLENTY, Version.V5)
        self._last_packet_id = 0

    @property
    def is_busy(self) -> bool:
        """Whether it has something to read or to answer."""
        return self.connection is not None and bool(
            self.is_woken or self.unanswered or self.releases
        )

    def connect(
        self, router: Router, version: Version, now: float, *, clean: bool, expiry_s: int,
        window: int, will: p.Will | None = None,
    ) -> None:  # fmt: skip
        """Open a connection and send its CONNECT."""
        self.version, self.window = version, window
        self.connection = Connection(router, self._wake)
        self._parser = Parser(PLENTY, version)
        self.flight.clear()
        self.unanswered.clear()
        self.releases.clear()
        asked = props(session_expiry_interval=expiry_s, receive_maximum=window)
        found = asked if version is Version.V5 else ()
        self.send(p.Connect(self.client_id, version, clean, will=will, properties=found), now)

    def forget(self) -> None:
        """Start anew: the broker has no session."""
        self.open.clear()
        self.outgoing.clear()

    def send(self, packet: p.Packet, now: float) -> None:
        """Have the broker act on a packet; it reads, so it is to be collected from."""
        assert self.connection is not None
        self.connection.receive(packet, now)
        self._wake()

    def packet_id(self) -> int:
        """Give a packet identifier that is free."""
        self._last_packet_id = self._last_packet_id % 65_535 + 1
        return self._last_packet_id

    def arrived(self, now: float, bytes_max: int = PLENTY) -> list[p.Packet]:
        """Collect what the broker writes now."""
        assert self.connection is not None
        self.is_woken = False
        data = b"".join(self.connection.collect(now, bytes_max))
        self.is_woken |= self.connection.has_more  # as the shell does
        return list(self._parser.feed(data))

    def judge(self, packet: p.Packet, reference: Reference, now: float) -> Owed | None:
        """Hold what leaves the broker to the reference, whether or not it gets here."""
        match packet:
            case p.Publish():
                one = reference.sends(self.client_id, packet, now)
                if packet.qos:
                    self.flight.add(packet.packet_id)
                    assert len(self.flight) <= self.window, "over the Receive Maximum"
                return one
            case p.Puback(packet_id) | p.Pubrec(packet_id):
                reference.answered(int(self.outgoing[packet_id][0].payload))
            case p.Pubcomp() | p.Pubrel():
                pass
            case _:
                raise AssertionError(packet)
        return None

    def read(self, packets: list[p.Packet], reference: Reference, now: float) -> None:
        """Read what arrived; PUBREL follows a PUBREC at once, other answers when `answer` says."""
        for packet in packets:
            one = self.judge(packet, reference, now)
            match packet:
                case p.Publish(packet_id=packet_id, qos=1 | 2 as qos):
                    assert one is not None
                    self.unanswered[packet_id] = packet
                    if qos == 2:
                        known = self.open.get(packet_id)
                        assert known == (one.number if one.is_seen else None), "QoS 2 came twice"
                        self.open[packet_id] = one.number
                    one.is_seen = True
                case p.Pubrel(packet_id):
                    self.open.pop(packet_id, None)
                    if packet_id not in self.releases:
                        self.releases.append(packet_id)
                case p.Puback(packet_id) | p.Pubcomp(packet_id):
                    self.outgoing.pop(packet_id, None)
                case p.Pubrec(packet_id):
                    self.outgoing[packet_id] = self.outgoing[packet_id][0], "release"
                    self.send(p.Pubrel(packet_id), now)

    def answer(self, index: int, reference: Reference, now: float) -> None:
        """Answer one PUBREL or one message, not always the oldest."""
        if self.releases:
            packet_id = self.releases.pop(0)
            self.flight.discard(packet_id)
            reference.completed(self.client_id, packet_id)
            self.send(p.Pubcomp(packet_id), now)
        elif self.unanswered:
            packet_id = list(self.unanswered)[min(index, len(self.unanswered) - 1)]
            publish = self.unanswered.pop(packet_id)
            reference.received(self.client_id, packet_id)
            if publish.qos == 1:
                self.flight.discard(packet_id)
                reference.completed(self.client_id, packet_id)
                self.send(p.Puback(packet_id), now)
            else:
                self.send(p.Pubrec(packet_id), now)

    def _wake(self) -> None:
        self.is_woken = True
