"""What a correct client knows of its connection, so that a valid packet is valid here and now."""

from dataclasses import dataclass, field

from cloud.broker.codec import packets as p
from cloud.broker.codec.properties import PropertyId, integer
from simulations.broker_fuzz.parts import V5

SERVER_SENDS = (
    p.Connack, p.Publish, p.Puback, p.Pubrec, p.Pubrel, p.Pubcomp, p.Suback, p.Unsuback,
    p.Pingresp, p.Disconnect, p.Auth,
)  # fmt: skip


class Wrong(Exception):
    """The broker did what it must not."""


@dataclass(slots=True)
class ClientView:
    """One side of one connection."""

    version: int = V5
    is_connected: bool = False
    is_dismissed: bool = False
    """The broker said DISCONNECT."""
    aliases: set[int] = field(default_factory=set)
    """Set towards the broker."""
    alias_maximum: int = 0
    receive_maximum: int = 0
    """Both as CONNACK said."""
    open_out: set[int] = field(default_factory=set)
    """QoS 2 messages sent, PUBREL not yet."""
    to_puback: list[int] = field(default_factory=list)
    to_pubrec: list[int] = field(default_factory=list)
    to_pubcomp: list[int] = field(default_factory=list)
    own_receive_maximum: int = 65_535
    own_packet_bytes_max: int = 1 << 30
    own_alias_maximum: int = 0
    in_flight: set[int] = field(default_factory=set)
    """QoS>0 messages from the broker that this client has not finished."""
    known_aliases: set[int] = field(default_factory=set)
    """Set by the broker."""

    def take(self, packet: p.Packet, size_bytes: int) -> None:
        """Note a packet from the broker; raises `Wrong` if it must not be sent to this client."""
        if not isinstance(packet, SERVER_SENDS):
            raise Wrong(f"the broker sent {packet!r}")
        if self.is_dismissed:
            raise Wrong(f"{packet!r} after DISCONNECT (3.14.4-1)")
        self.is_dismissed = isinstance(packet, p.Disconnect)
        if isinstance(packet, p.Auth):
            raise Wrong("AUTH to a client that named no authentication method (4.12.0-6)")
        if isinstance(packet, p.Disconnect) and self.version != V5:
            raise Wrong("DISCONNECT from the server, which 3.1.1 does not have")
        if not self.is_connected and not isinstance(packet, p.Connack):
            raise Wrong(f"{packet!r} before CONNACK (3.2.0-1)")
        if size_bytes > self.own_packet_bytes_max:
            raise Wrong(f"{size_bytes} bytes for a client that takes {self.own_packet_bytes_max}")
        match packet:
            case p.Connack(_, reason, found):
                if self.is_connected:
                    raise Wrong("a second CONNACK (3.2.0-2)")
                self.is_connected = reason == 0
                self.alias_maximum = integer(found, PropertyId.TOPIC_ALIAS_MAXIMUM, 0)
                self.receive_maximum = integer(found, PropertyId.RECEIVE_MAXIMUM, 65_535)
            case p.Publish():
                self._message(packet)
            case p.Pubrec(packet_id, reason) if reason >= 0x80:
                self.open_out.discard(packet_id)
            case p.Pubrel(packet_id):
                self.to_pubcomp.append(packet_id)
            case _:
                pass

    def _message(self, packet: p.Publish) -> None:
        alias = integer(packet.properties, PropertyId.TOPIC_ALIAS, 0)
        if alias > self.own_alias_maximum:
            raise Wrong(f"alias {alias}, {self.own_alias_maximum} allowed (3.1.2-26)")
        if not packet.topic and alias not in self.known_aliases:
            raise Wrong(f"alias {alias} was never set (3.3.2-12)")
        self.known_aliases.add(alias)
        if not packet.qos:
            return
        if packet.packet_id in self.in_flight and not packet.dup:
            raise Wrong(f"packet identifier {packet.packet_id} is in use (2.2.1-4)")
        self.in_flight.add(packet.packet_id)
        if len(self.in_flight) > self.own_receive_maximum:
            raise Wrong(f"over the client's receive maximum {self.own_receive_maximum} (3.3.4-9)")
        (self.to_puback if packet.qos == 1 else self.to_pubrec).append(packet.packet_id)
