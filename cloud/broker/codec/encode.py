"""Control packets to bytes (section 3), for both versions. Pure."""

from collections.abc import Callable
from typing import Any, Final

from cloud.broker.codec import fields, properties
from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from cloud.broker.codec.properties import Properties


def publish_header(
    topic: bytes,
    payload_bytes: int,
    first: int,
    packet_id: int,
    found: Properties,
    version: Version,
) -> bytes:
    """Everything of a PUBLISH before its payload, which is sent on as it came (3.3).

    `first` holds type, DUP, QoS and RETAIN; `packet_id` is left out where it is 0.
    """
    tail = b"" if version == 4 else properties.encode(found) if found else b"\0"
    identifier = packet_id.to_bytes(2, "big") if packet_id else b""
    size = len(topic)
    left = 2 + size + len(identifier) + len(tail) + payload_bytes
    # one format for the sizes that nearly all have: half the time of adding seven pieces up
    if 0x80 <= left < 0x4000:
        low, high = left & 0x7F | 0x80, left >> 7
        return b"%c%c%c%c%c%b%b%b" % (
            first, low, high, size >> 8, size & 0xFF, topic, identifier, tail,
        )  # fmt: skip
    head = bytes((first,)) + fields.varint(left)
    return head + size.to_bytes(2, "big") + topic + identifier + tail


def puback(packet_id: int, reason: int, version: Version) -> bytes:
    """PUBACK without properties; the reason is left out where it is 0 (3.4.2.1)."""
    if reason and version is Version.V5:
        return b"\x40\x03" + packet_id.to_bytes(2, "big") + bytes((reason,))
    return b"\x40\x02" + packet_id.to_bytes(2, "big")


def _connect(packet: p.Connect, version: Version) -> bytes:
    del version  # a CONNECT names its own
    v5 = packet.version is Version.V5
    will = packet.will
    flags = packet.clean_start << 1
    flags |= (packet.password is not None) << 6 | (packet.username is not None) << 7
    if will is not None:
        flags |= 4 | will.qos << 3 | will.retain << 5
    out = fields.string("MQTT") + bytes((packet.version, flags))
    out += packet.keep_alive.to_bytes(2, "big")
    if v5:
        out += properties.encode(packet.properties)
    out += fields.string(packet.client_id)
    if will is not None:
        out += properties.encode(will.properties) if v5 else b""
        out += fields.string(will.topic) + fields.binary(will.payload)
    if packet.username is not None:
        out += fields.string(packet.username)
    if packet.password is not None:
        out += fields.binary(packet.password)
    return out


def _connack(packet: p.Connack, version: Version) -> bytes:
    head = bytes((packet.session_present, packet.reason))
    return head + properties.encode(packet.properties) if version is Version.V5 else head


def _tail(reason: int, found: Properties, version: Version) -> bytes:
    """Reason and properties, each left out where it says nothing (3.4.2.1, 3.14.2.1)."""
    if version is Version.V311 or not (reason or found):
        return b""
    return bytes((reason,)) + (properties.encode(found) if found else b"")


def _answer(packet: p.Puback | p.Pubrec | p.Pubrel | p.Pubcomp, version: Version) -> bytes:
    head = packet.packet_id.to_bytes(2, "big")
    return head + _tail(packet.reason, packet.properties, version)


def _subscribe(packet: p.Subscribe, version: Version) -> bytes:
    out = packet.packet_id.to_bytes(2, "big")
    if version is Version.V5:
        out += properties.encode(packet.properties)
    for one in packet.subscriptions:
        options = one.qos | one.no_local << 2 | one.retain_as_published << 3
        options |= one.retain_handling << 4
        out += fields.string(one.topic_filter) + bytes((options,))
    return out


def _suback(packet: p.Suback | p.Unsuback, version: Version) -> bytes:
    out = packet.packet_id.to_bytes(2, "big")
    if version is Version.V5:
        out += properties.encode(packet.properties)
    return out + bytes(packet.reasons)


def _unsuback(packet: p.Unsuback, version: Version) -> bytes:
    if version is Version.V311:
        return packet.packet_id.to_bytes(2, "big")
    return _suback(packet, version)


def _unsubscribe(packet: p.Unsubscribe, version: Version) -> bytes:
    out = packet.packet_id.to_bytes(2, "big")
    if version is Version.V5:
        out += properties.encode(packet.properties)
    return out + b"".join(fields.string(topic_filter) for topic_filter in packet.topic_filters)


def _empty(packet: p.Pingreq | p.Pingresp, version: Version) -> bytes:
    del packet, version
    return b""


def _reason(packet: p.Disconnect | p.Auth, version: Version) -> bytes:
    return _tail(packet.reason, packet.properties, version)


_ENCODERS: Final[dict[type, tuple[int, Callable[[Any, Version], bytes]]]] = {
    p.Connect: (0x10, _connect),
    p.Connack: (0x20, _connack),
    p.Puback: (0x40, _answer),
    p.Pubrec: (0x50, _answer),
    p.Pubrel: (0x62, _answer),
    p.Pubcomp: (0x70, _answer),
    p.Subscribe: (0x82, _subscribe),
    p.Suback: (0x90, _suback),
    p.Unsubscribe: (0xA2, _unsubscribe),
    p.Unsuback: (0xB0, _unsuback),
    p.Pingreq: (0xC0, _empty),
    p.Pingresp: (0xD0, _empty),
    p.Disconnect: (0xE0, _reason),
    p.Auth: (0xF0, _reason),
}


def encode(packet: p.Packet, version: Version = Version.V5) -> bytes:
    """Encode any packet. Properties and reasons that 3.1.1 lacks are left out there."""
    if isinstance(packet, p.Publish):
        first = 0x30 | packet.dup << 3 | packet.qos << 1 | packet.retain
        topic, size = packet.topic.encode(), len(packet.payload)
        header = publish_header(topic, size, first, packet.packet_id, packet.properties, version)
        return header + packet.payload
    first, encoder = _ENCODERS[type(packet)]
    body = encoder(packet, version)
    return bytes((first,)) + fields.varint(len(body)) + body
