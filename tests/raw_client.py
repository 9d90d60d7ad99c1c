"""A client that sends the packets it is told to, and nothing else, over our codec's client side.

It acknowledges nothing by itself, may break any rule, and shows what arrived as it was on the wire.
Plain blocking sockets with a deadline: no thread, and no `select` with its bound of descriptors.
"""

import contextlib
import socket
import ssl
from collections import deque
from typing import Any, Self, TypeVar

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.codec.packets import Version
from cloud.broker.codec.parser import Parser
from cloud.broker.codec.properties import Properties, PropertyId
from cloud.broker.launch import BrokerAddress

TIMEOUT_S = 10.0
"""Deadline of every read; none of them is a pause."""
PACKET_BYTES_MAX = 1 << 28

P = TypeVar("P", bound=p.Packet)


def props(**values: Any) -> Properties:
    """Make properties from keywords in lower case; a list stands for several of one name."""
    out: list[tuple[PropertyId, Any]] = []
    for name, value in values.items():
        several = value if isinstance(value, list) else [value]
        out += [(PropertyId[name.upper()], one) for one in several]
    return tuple(out)


def found(packet: p.Connack | p.Publish | p.Disconnect | p.Puback, name: str) -> list[Any]:
    """Give all values of a property, in the order of the wire."""
    return [value for identifier, value in packet.properties if identifier.name.lower() == name]


class RawClient:
    """One connection; `connack` is the answer to its CONNECT, if one was sent and answered."""

    def __init__(
        self,
        address: BrokerAddress,
        connect: p.Connect | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.version = connect.version if connect is not None else Version.V5
        self._parser = Parser(PACKET_BYTES_MAX, self.version)
        self._arrived: deque[p.Packet] = deque()
        self._last_packet_id = 0
        plain = socket.create_connection((address.host, address.port), TIMEOUT_S)
        try:
            self.socket = (
                tls.wrap_socket(plain, server_hostname=address.host) if tls is not None else plain
            )
        except BaseException:
            plain.close()
            raise
        self.connack: p.Connack | None = None
        if connect is not None:
            try:
                self.send(connect)
                answer = self.read()
            except BaseException:
                self.socket.close()
                raise
            self.connack = answer if isinstance(answer, p.Connack) else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.break_off()

    @property
    def is_closed(self) -> bool:
        """Whether our end is closed."""
        return self.socket.fileno() < 0

    def packet_id(self) -> int:
        """Give a packet identifier that this connection has not used."""
        self._last_packet_id += 1
        return self._last_packet_id

    def send(self, *packets: p.Packet) -> None:
        """Send packets as they are, in one piece."""
        self.send_bytes(b"".join(encode(one, self.version) for one in packets))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes; what the broker has closed already is for `read` to find out."""
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def read(self) -> p.Packet | None:
        """Give the next packet, None at the end of the connection; a timeout is a failure."""
        while not self._arrived:
            try:
                data = self.socket.recv(65_536)
            except ConnectionError:
                return None
            if not data:
                return None
            self._arrived.extend(self._parser.feed(data))
        return self._arrived.popleft()

    def expect(self, kind: type[P]) -> P:
        """Give the next packet, which must be of this kind."""
        packet = self.read()
        assert isinstance(packet, kind), f"{packet} instead of {kind.__name__}"
        return packet

    def until(self, kind: type[P]) -> tuple[P, list[p.Packet]]:
        """Give the first packet of this kind, and those that came before it."""
        before: list[p.Packet] = []
        while not isinstance(packet := self.read(), kind):
            assert packet is not None, f"no {kind.__name__}: closed after {before[-3:]}"
            before.append(packet)
        return packet, before

    def answer(self, kind: type[P]) -> P:
        """Give the first packet of this kind; those before it stay to be read, in their order."""
        packet, before = self.until(kind)
        self._arrived.extendleft(reversed(before))
        return packet

    def rest(self) -> list[p.Packet]:
        """Give everything up to the end of the connection; a timeout is a failure."""
        return list(iter(self.read, None))

    def end_reason(self) -> int:
        """Give the reason of the DISCONNECT that ends the connection, after whatever came first."""
        last = self.rest()[-1:]
        assert last, "closed without a word"
        assert isinstance(last[0], p.Disconnect)
        return last[0].reason

    def so_far(self) -> list[p.Packet]:
        """Give what came, a ping's answer being the last word: acknowledged elsewhere is here."""
        self.send(p.Pingreq())
        return self.until(p.Pingresp)[1]

    def expect_silence(self, for_s: float) -> None:
        """Say that nothing arrives for so long, and the connection stays open."""
        assert not self._arrived
        self.socket.settimeout(for_s)
        try:
            data = self.socket.recv(1)
        except TimeoutError:
            return
        finally:
            self.socket.settimeout(TIMEOUT_S)
        raise AssertionError(f"{data!r} arrived")

    def subscribe(self, topic_filter: str, qos: p.Qos = 2, **properties: Any) -> int:
        """Subscribe, and give the reason."""
        wanted = (p.Subscription(topic_filter, qos),)
        self.send(p.Subscribe(self.packet_id(), wanted, props(**properties)))
        [reason] = self.answer(p.Suback).reasons
        return reason

    def publish(
        self, topic: str, payload: bytes, qos: p.Qos = 1, *, retain: bool = False, **properties: Any
    ) -> int:
        """Publish, complete the exchange (4.3), and give the reason; 0 for QoS 0."""
        packet_id = self.packet_id() if qos else 0
        self.send(p.Publish(topic, payload, qos, retain, False, packet_id, props(**properties)))
        if qos == 0:
            return 0
        if qos == 1:
            puback = self.answer(p.Puback)
            assert puback.packet_id == packet_id
            return puback.reason
        pubrec = self.answer(p.Pubrec)
        assert pubrec.packet_id == packet_id
        if pubrec.reason < 0x80:
            self.send(p.Pubrel(packet_id))
            assert self.answer(p.Pubcomp) == p.Pubcomp(packet_id)
        return pubrec.reason

    def acknowledge(self, publish: p.Publish) -> None:
        """Complete the exchange of a message that arrived."""
        if publish.qos == 1:
            self.send(p.Puback(publish.packet_id))
        elif publish.qos == 2:
            self.send(p.Pubrec(publish.packet_id))
            assert self.answer(p.Pubrel) == p.Pubrel(publish.packet_id)
            self.send(p.Pubcomp(publish.packet_id))

    def disconnect(self, reason: int = 0, **properties: Any) -> None:
        """Leave in good order and wait for the broker to close."""
        self.send(p.Disconnect(reason, props(**properties)))
        self.rest()
        self.socket.close()

    def break_off(self) -> None:
        """Lose the connection without DISCONNECT; nothing happens if it is closed."""
        self.socket.close()
