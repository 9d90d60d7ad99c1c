"""One control packet from the bytes after its fixed header (section 3). Pure.

Raises `BrokenRule` with the reason code that section 4.13 asks for. Both directions are decoded:
which packets a peer may send is for `connection` to say.
"""

from collections.abc import Callable
from typing import Final, Literal, cast

from cloud.broker.codec import packets as p
from cloud.broker.codec import properties
from cloud.broker.codec.fields import Reader
from cloud.broker.codec.packets import Qos, Version
from cloud.broker.codec.properties import PropertyId
from cloud.broker.codec.reasons import BrokenRule, ReasonCode, malformed, protocol_error
from cloud.broker.codec.topics import check_name

PROTOCOL_LEVEL_31: Final = 3
QOS_MAX: Final = 2
FILTERS_MAX: Final = 10_000
"""In one packet; the specification has no bound, a megabyte of them would take a second."""
KNOWN_TOPICS_MAX: Final = 16
KNOWN_TOPIC_BYTES_MAX: Final = 256
"""So that a connection's remembered topics stay under 10 KB."""


def _qos(bits: int) -> Qos:
    if bits > QOS_MAX:
        raise malformed("QoS 3 does not exist")
    return cast("Qos", bits)


def _packet_id(reader: Reader) -> int:
    packet_id = reader.u16()
    if not packet_id:
        raise protocol_error("packet identifier 0 is not allowed")
    return packet_id


def publish(
    first: int, data: bytes, at: int, end: int, version: Version, known: dict[bytes, str]
) -> p.Publish:
    """PUBLISH in `data[at:end]` (3.3); the hot path, so it reads the bytes itself.

    `known` remembers the short topic names of this connection that were found well formed.
    """
    qos = first >> 1 & 3
    topic_at = at + 2
    payload_at = body_at = topic_at + (data[at] << 8 | data[at + 1]) if topic_at <= end else end + 1
    if qos > QOS_MAX or (not qos and first & 8):
        raise malformed("PUBLISH has QoS 3, or DUP with QoS 0")
    packet_id = 0
    if qos:
        payload_at += 2
    if payload_at > end:
        raise malformed("PUBLISH ends inside its variable header")
    if qos:
        packet_id = data[body_at] << 8 | data[body_at + 1]
        if not packet_id:
            raise protocol_error("packet identifier 0 is not allowed")
    raw = data[topic_at:body_at]
    topic = known.get(raw)
    found: properties.Properties = ()
    if version != 5:
        pass
    elif payload_at < end and data[payload_at] == 0:
        payload_at += 1
    else:
        reader = Reader(data, payload_at, end)
        found = properties.decode(reader, 3)
        payload_at = end - reader.left
    if topic is None:
        topic = _topic(raw, found, version)
        if topic and len(raw) <= KNOWN_TOPIC_BYTES_MAX:
            if len(known) >= KNOWN_TOPICS_MAX:
                known.clear()
            known[raw] = topic
    return p.Publish(
        topic, data[payload_at:end], cast("Qos", qos), first & 1 == 1, first & 8 == 8,
        packet_id, found,
    )  # fmt: skip


def _topic(raw: bytes, found: properties.Properties, version: Version) -> str:
    """Topic Name of a PUBLISH; empty only where an alias stands for it (3.3.2.1)."""
    try:
        topic = raw.decode()
    except UnicodeDecodeError as error:
        raise malformed("a topic is not UTF-8") from error
    if "\0" in topic:
        raise malformed("a string holds U+0000")
    if topic or not properties.has(found, PropertyId.TOPIC_ALIAS):
        if not topic and version is Version.V5:
            raise protocol_error("a PUBLISH without topic needs a topic alias")
        check_name(topic)
    return topic


def _connect(reader: Reader, version: Version) -> p.Connect:
    del version  # a CONNECT names its own
    name = reader.string()
    level = reader.u8()
    if (name, level) not in (("MQTT", Version.V311), ("MQTT", Version.V5)):
        known = name == "MQTT" or (name == "MQIsdp" and level == PROTOCOL_LEVEL_31)
        reason = ReasonCode.UNSUPPORTED_PROTOCOL_VERSION if known else ReasonCode.MALFORMED_PACKET
        raise BrokenRule(reason, f"protocol {name[:8]!r} level {level} is not spoken here")
    version_asked = Version(level)
    try:
        return _connect_rest(reader, version_asked)
    except BrokenRule as error:
        error.version = version_asked
        raise


def _connect_rest(reader: Reader, version: Version) -> p.Connect:
    flags = reader.u8()
    has_will, has_password, has_name = flags & 4, flags & 0x40, flags & 0x80
    if flags & 1 or (not has_will and flags & 0x38):
        raise malformed("CONNECT has reserved flags set")
    if version is Version.V311 and has_password and not has_name:
        raise malformed("3.1.1 allows no password without a user name")
    keep_alive = reader.u16()
    v5 = version is Version.V5
    found = properties.decode(reader, 1) if v5 else ()
    client_id = reader.string()
    will = None
    if has_will:
        will_properties = properties.decode(reader, properties.WILL) if v5 else ()
        topic = reader.string()
        check_name(topic)
        will = p.Will(
            topic, reader.binary(), _qos(flags >> 3 & 3), bool(flags & 0x20), will_properties
        )
    connect = p.Connect(
        client_id, version, bool(flags & 2), keep_alive, will,
        reader.string() if has_name else None, reader.binary() if has_password else None, found,
    )  # fmt: skip
    reader.finish()
    return connect


def _connack(reader: Reader, version: Version) -> p.Connack:
    flags = reader.u8()
    if flags > 1:
        raise malformed("CONNACK has reserved flags set")
    reason = reader.u8()
    found = properties.decode(reader, 2) if version is Version.V5 else ()
    reader.finish()
    return p.Connack(bool(flags), reason, found)


def _reason(reader: Reader, version: Version) -> int:
    """Reason code, which 5.0 lets a peer leave out and 3.1.1 does not have (3.4.2.1)."""
    if version is Version.V311 or not reader.left:
        reader.finish()
        return 0
    return reader.u8()


def _optional_properties(reader: Reader, packet_type: int) -> properties.Properties:
    found = properties.decode(reader, packet_type) if reader.left else ()
    reader.finish()
    return found


def _puback(reader: Reader, version: Version) -> p.Puback:
    packet_id, reason = _packet_id(reader), _reason(reader, version)
    return p.Puback(packet_id, reason, _optional_properties(reader, 4))


def _pubrec(reader: Reader, version: Version) -> p.Pubrec:
    packet_id, reason = _packet_id(reader), _reason(reader, version)
    return p.Pubrec(packet_id, reason, _optional_properties(reader, 5))


def _pubrel(reader: Reader, version: Version) -> p.Pubrel:
    packet_id, reason = _packet_id(reader), _reason(reader, version)
    return p.Pubrel(packet_id, reason, _optional_properties(reader, 6))


def _pubcomp(reader: Reader, version: Version) -> p.Pubcomp:
    packet_id, reason = _packet_id(reader), _reason(reader, version)
    return p.Pubcomp(packet_id, reason, _optional_properties(reader, 7))


def _subscription(reader: Reader, version: Version) -> p.Subscription:
    topic_filter = reader.string()
    options = reader.u8()
    if options & (0xC0 if version is Version.V5 else 0xFC):
        raise malformed("SUBSCRIBE has reserved option bits set")
    if options & 3 > QOS_MAX:  # 3.8.3.1: a Protocol Error here, not malformed as in PUBLISH
        raise protocol_error("QoS 3 does not exist")
    handling = options >> 4
    if handling > 2:
        raise protocol_error("retain handling 3 does not exist")
    return p.Subscription(
        topic_filter, _qos(options & 3), bool(options & 4), bool(options & 8),
        cast("Literal[0, 1, 2]", handling),
    )  # fmt: skip


def _count_filter(before: int) -> None:
    if before >= FILTERS_MAX:
        raise BrokenRule(ReasonCode.QUOTA_EXCEEDED, f"over {FILTERS_MAX} topic filters in a packet")


def _subscribe(reader: Reader, version: Version) -> p.Subscribe:
    packet_id = _packet_id(reader)
    found = properties.decode(reader, 8) if version is Version.V5 else ()
    wanted: list[p.Subscription] = []
    while reader.left:
        _count_filter(len(wanted))
        wanted.append(_subscription(reader, version))
    if not wanted:
        raise protocol_error("SUBSCRIBE names no topic filter")
    return p.Subscribe(packet_id, tuple(wanted), found)


def _suback(reader: Reader, version: Version) -> p.Suback:
    packet_id = _packet_id(reader)
    found = properties.decode(reader, 9) if version is Version.V5 else ()
    return p.Suback(packet_id, tuple(reader.raw(reader.left)), found)


def _unsubscribe(reader: Reader, version: Version) -> p.Unsubscribe:
    packet_id = _packet_id(reader)
    found = properties.decode(reader, 10) if version is Version.V5 else ()
    filters: list[str] = []
    while reader.left:
        _count_filter(len(filters))
        filters.append(reader.string())
    if not filters:
        raise protocol_error("UNSUBSCRIBE names no topic filter")
    return p.Unsubscribe(packet_id, tuple(filters), found)


def _unsuback(reader: Reader, version: Version) -> p.Unsuback:
    packet_id = _packet_id(reader)
    if version is Version.V311:
        reader.finish()
        return p.Unsuback(packet_id)
    found = properties.decode(reader, 11)
    return p.Unsuback(packet_id, tuple(reader.raw(reader.left)), found)


def _pingreq(reader: Reader, version: Version) -> p.Pingreq:
    del version
    reader.finish()
    return p.Pingreq()


def _pingresp(reader: Reader, version: Version) -> p.Pingresp:
    del version
    reader.finish()
    return p.Pingresp()


def _disconnect(reader: Reader, version: Version) -> p.Disconnect:
    reason = _reason(reader, version)
    return p.Disconnect(reason, _optional_properties(reader, 14))


def _auth(reader: Reader, version: Version) -> p.Auth:
    if version is Version.V311:
        raise malformed("3.1.1 has no AUTH packet")
    reason = _reason(reader, version)
    return p.Auth(reason, _optional_properties(reader, 15))


_DECODERS: Final[dict[int, Callable[[Reader, Version], p.Packet]]] = {
    0x10: _connect, 0x20: _connack, 0x40: _puback, 0x50: _pubrec, 0x62: _pubrel, 0x70: _pubcomp,
    0x82: _subscribe, 0x90: _suback, 0xA2: _unsubscribe, 0xB0: _unsuback, 0xC0: _pingreq,
    0xD0: _pingresp, 0xE0: _disconnect, 0xF0: _auth,
}  # fmt: skip
"""By first byte, so a packet with wrong flag bits finds no decoder (2.1.3-1)."""


def decode(first: int, data: bytes, at: int, end: int, version: Version) -> p.Packet:
    """Decode the packet whose first byte is `first` and whose body is `data[at:end]`.

    Raises:
        BrokenRule: 0x81, 0x82, 0x84, 0x90 or 0x94, as the specification says for the fault.

    """
    if first >> 4 == 3:
        return publish(first, data, at, end, version, {})
    decoder = _DECODERS.get(first)
    if decoder is None:
        raise malformed(f"packet type {first >> 4} with flags {first & 15} does not exist")
    return decoder(Reader(data, at, end), version)
