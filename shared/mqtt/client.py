"""Paho over a `Wire`: it packs and parses, and never sees a socket or a thread.

Four private methods are overridden: two because paho offers no transport of one's own, two because
it spends most of a message's time on properties and reasons that nobody here looks at. For the same
reason a publish is packed here.
`tests/shared/mqtt/test_client.py` says so when a new paho changes them.
"""

import struct
import time
from collections.abc import Callable
from typing import Literal

import paho.mqtt.client as paho
from paho.mqtt import MQTTException
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties, VariableByteIntegers

from shared.mqtt.settings import LinkSettings, Will
from shared.mqtt.wire import Wire

_PUBACK = PacketTypes.PUBACK << 4
_PUBLISH_QOS1 = PacketTypes.PUBLISH << 4 | 1 << 1
_EXPIRY = struct.Struct("!BBI")  # length, identifier 2 (message expiry interval), seconds

NO_MQTT = (ValueError, IndexError, KeyError, struct.error, MQTTException)
"""What paho raises over bytes that are no MQTT."""


class Client(paho.Client):
    """One connection's client; `open` when the wire is connected, `read` when it has bytes."""

    def __init__(
        self,
        settings: LinkSettings,
        will: Will | None,
        wire: Wire,
        on_delivery: Callable[[str, bytes, int, int], None],
        on_puback: Callable[[int, int], None],
    ) -> None:
        """`on_delivery` gets topic, payload, packet identifier and QoS, `on_puback` identifier and
        reason code. They replace paho's `on_message` and `on_publish`, and must not raise.
        """
        super().__init__(
            CallbackAPIVersion.VERSION2, settings.client_id, protocol=paho.MQTTv5, manual_ack=True
        )
        self._settings, self._wire = settings, wire
        self._on_delivery, self._on_puback = on_delivery, on_puback
        self._unacknowledged = set[int]()
        if settings.username is not None:
            self.username_pw_set(settings.username, settings.password)
        if will is not None:
            self.will_set(will.topic, will.payload, 1, will.retain)

    def open(self) -> None:
        """Send CONNECT."""
        s = self._settings
        self.connect(
            s.host, s.port, s.keepalive_s, clean_start=False, properties=_connect_properties(s)
        )

    def publish_qos1(
        self, topic: str, payload: bytes, *, retain: bool, expiry_s: int | None
    ) -> int | None:
        """MQTT 5.0, section 3.3, packed here: paho takes 70 us for it. Gives the packet identifier,
        or None when identifiers have gone round to one that still waits for its PUBACK.
        """
        mid = self._mid_generate()
        if mid in self._unacknowledged:
            return None
        self._unacknowledged.add(mid)
        name = topic.encode()
        properties = b"\0" if expiry_s is None else _EXPIRY.pack(5, 2, expiry_s)
        size = 4 + len(name) + len(properties) + len(payload)
        packet = b"".join((
            bytes([_PUBLISH_QOS1 | retain]), VariableByteIntegers.encode(size),  # type: ignore[no-untyped-call]  # paho is untyped here
            len(name).to_bytes(2), name, mid.to_bytes(2), properties, payload,
        ))  # fmt: skip
        self._packet_queue(PacketTypes.PUBLISH << 4, packet, mid, 1)
        return mid

    def read(self) -> None:
        """Handle every packet that has come. Raises `NO_MQTT`."""
        while self._wire.unread and self._sock is not None:
            self.loop_read()

    def _create_socket(self) -> "paho.SocketLike":
        return self._wire

    def _packet_queue(
        self,
        command: int,
        packet: bytes | bytearray,
        mid: int,  # noqa: ARG002  paho's signature
        qos: int,  # noqa: ARG002
        info: paho.MQTTMessageInfo | None = None,  # noqa: ARG002
    ) -> MQTTErrorCode:
        self._last_msg_out = time.monotonic()  # for paho's keepalive
        if command == _PUBACK:
            self._wire.send_later(packet)
        else:
            self._wire.send(packet)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _handle_publish(self) -> MQTTErrorCode:
        """MQTT 5.0, section 3.3. We granted no topic alias, so no property changes what it is."""
        body: bytearray = self._in_packet["packet"]
        qos = self._in_packet["command"] >> 1 & 3
        at = 2 + int.from_bytes(body[:2])
        topic = body[2:at].decode()
        mid = 0
        if qos:
            (mid,) = struct.unpack_from("!H", body, at)
            at += 2
        length, size = VariableByteIntegers.decode(body[at : at + 4])  # type: ignore[no-untyped-call]  # paho is untyped here
        self._on_delivery(topic, bytes(body[at + size + length :]), mid, qos)
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _handle_pubackcomp(self, cmd: Literal["PUBACK", "PUBCOMP"]) -> MQTTErrorCode:
        """MQTT 5.0, section 3.4: without a reason code it is 0."""
        body: bytearray = self._in_packet["packet"]
        (mid,) = struct.unpack_from("!H", body)
        if cmd == "PUBACK" and mid in self._unacknowledged:
            self._unacknowledged.discard(mid)
            self._on_puback(mid, body[2] if len(body) > 2 else 0)
        return MQTTErrorCode.MQTT_ERR_SUCCESS


def _connect_properties(settings: LinkSettings) -> Properties:
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho is untyped here
    properties.SessionExpiryInterval = settings.session_expiry_s
    properties.ReceiveMaximum = settings.receive_max
    return properties
