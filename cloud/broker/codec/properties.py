"""Properties of MQTT 5.0 packets (section 2.2.2): their types, where they may stand. Pure."""

from enum import IntEnum
from typing import Final

from cloud.broker.codec import fields
from cloud.broker.codec.fields import Reader
from cloud.broker.codec.reasons import BrokenRule, ReasonCode, malformed, protocol_error

PropertyValue = int | str | bytes | tuple[str, str]


class PropertyId(IntEnum):
    """Section 2.2.2.2, table 2-4."""

    PAYLOAD_FORMAT_INDICATOR = 0x01
    MESSAGE_EXPIRY_INTERVAL = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_IDENTIFIER = 0x0B
    SESSION_EXPIRY_INTERVAL = 0x11
    ASSIGNED_CLIENT_IDENTIFIER = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTHENTICATION_METHOD = 0x15
    AUTHENTICATION_DATA = 0x16
    REQUEST_PROBLEM_INFORMATION = 0x17
    WILL_DELAY_INTERVAL = 0x18
    REQUEST_RESPONSE_INFORMATION = 0x19
    RESPONSE_INFORMATION = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_SUBSCRIPTION_AVAILABLE = 0x28
    SUBSCRIPTION_IDENTIFIER_AVAILABLE = 0x29
    SHARED_SUBSCRIPTION_AVAILABLE = 0x2A


Properties = tuple[tuple[PropertyId, PropertyValue], ...]
"""In the order of the wire, which user properties must keep (3.3.2.3.7)."""

PROPERTY_BYTES_MAX: Final = 65_536 + 4_096
"""Of one packet: a content type or correlation data of full length, and what goes with it. The
specification has no bound; a packet full of small ones would take a fourth of a second to read."""
_P = PropertyId
WILL: Final = 0
"""Stands for the will properties of a CONNECT where a packet type is asked for."""

_FLAGS: Final = frozenset({
    _P.PAYLOAD_FORMAT_INDICATOR, _P.REQUEST_PROBLEM_INFORMATION, _P.REQUEST_RESPONSE_INFORMATION,
    _P.MAXIMUM_QOS, _P.RETAIN_AVAILABLE, _P.WILDCARD_SUBSCRIPTION_AVAILABLE,
    _P.SUBSCRIPTION_IDENTIFIER_AVAILABLE, _P.SHARED_SUBSCRIPTION_AVAILABLE,
})  # fmt: skip
_U16: Final = frozenset({
    _P.SERVER_KEEP_ALIVE, _P.RECEIVE_MAXIMUM, _P.TOPIC_ALIAS_MAXIMUM, _P.TOPIC_ALIAS,
})  # fmt: skip
_U32: Final = frozenset({
    _P.MESSAGE_EXPIRY_INTERVAL, _P.SESSION_EXPIRY_INTERVAL, _P.WILL_DELAY_INTERVAL,
    _P.MAXIMUM_PACKET_SIZE,
})  # fmt: skip
_BINARY: Final = frozenset({_P.CORRELATION_DATA, _P.AUTHENTICATION_DATA})
_NOT_ZERO: Final = {
    _P.RECEIVE_MAXIMUM: ReasonCode.PROTOCOL_ERROR,
    _P.MAXIMUM_PACKET_SIZE: ReasonCode.PROTOCOL_ERROR,
    _P.SUBSCRIPTION_IDENTIFIER: ReasonCode.PROTOCOL_ERROR,
    _P.TOPIC_ALIAS: ReasonCode.TOPIC_ALIAS_INVALID,
}

_MESSAGE: Final = frozenset({
    _P.PAYLOAD_FORMAT_INDICATOR, _P.MESSAGE_EXPIRY_INTERVAL, _P.CONTENT_TYPE, _P.RESPONSE_TOPIC,
    _P.CORRELATION_DATA, _P.USER_PROPERTY,
})  # fmt: skip
_ANSWER: Final = frozenset({_P.REASON_STRING, _P.USER_PROPERTY})
ALLOWED: Final[dict[int, frozenset[PropertyId]]] = {
    WILL: _MESSAGE | {_P.WILL_DELAY_INTERVAL},
    1: frozenset({
        _P.SESSION_EXPIRY_INTERVAL, _P.AUTHENTICATION_METHOD, _P.AUTHENTICATION_DATA,
        _P.REQUEST_PROBLEM_INFORMATION, _P.REQUEST_RESPONSE_INFORMATION, _P.RECEIVE_MAXIMUM,
        _P.TOPIC_ALIAS_MAXIMUM, _P.USER_PROPERTY, _P.MAXIMUM_PACKET_SIZE,
    }),
    2: _ANSWER | {
        _P.SESSION_EXPIRY_INTERVAL, _P.ASSIGNED_CLIENT_IDENTIFIER, _P.SERVER_KEEP_ALIVE,
        _P.AUTHENTICATION_METHOD, _P.AUTHENTICATION_DATA, _P.RESPONSE_INFORMATION,
        _P.SERVER_REFERENCE, _P.RECEIVE_MAXIMUM, _P.TOPIC_ALIAS_MAXIMUM, _P.MAXIMUM_QOS,
        _P.RETAIN_AVAILABLE, _P.MAXIMUM_PACKET_SIZE, _P.WILDCARD_SUBSCRIPTION_AVAILABLE,
        _P.SUBSCRIPTION_IDENTIFIER_AVAILABLE, _P.SHARED_SUBSCRIPTION_AVAILABLE,
    },
    3: _MESSAGE | {_P.SUBSCRIPTION_IDENTIFIER, _P.TOPIC_ALIAS},
    4: _ANSWER, 5: _ANSWER, 6: _ANSWER, 7: _ANSWER, 9: _ANSWER, 11: _ANSWER,
    8: frozenset({_P.SUBSCRIPTION_IDENTIFIER, _P.USER_PROPERTY}),
    10: frozenset({_P.USER_PROPERTY}),
    14: _ANSWER | {_P.SESSION_EXPIRY_INTERVAL, _P.SERVER_REFERENCE},
    15: _ANSWER | {_P.AUTHENTICATION_METHOD, _P.AUTHENTICATION_DATA},
}  # fmt: skip
"""Properties that may stand in each packet type (table 2-4)."""


def _value(identifier: PropertyId, reader: Reader) -> PropertyValue:
    if identifier in _FLAGS:
        return reader.u8()
    if identifier in _U16:
        return reader.u16()
    if identifier in _U32:
        return reader.u32()
    if identifier in _BINARY:
        return reader.binary()
    if identifier is PropertyId.SUBSCRIPTION_IDENTIFIER:
        return reader.varint()
    if identifier is PropertyId.USER_PROPERTY:
        return reader.string(), reader.string()
    return reader.string()


def decode(reader: Reader, packet_type: int) -> Properties:
    """Read a property length and its properties; raises `BrokenRule` for what may not stand here.

    Only user properties, and subscription identifiers in a PUBLISH, may stand more than once.
    """
    length = reader.varint()
    if not length:
        return ()
    part = reader.part(length)
    if length > PROPERTY_BYTES_MAX:
        why = f"{length} bytes of properties, {PROPERTY_BYTES_MAX} at most"
        raise BrokenRule(ReasonCode.QUOTA_EXCEEDED, why)
    found: list[tuple[PropertyId, PropertyValue]] = []
    seen: set[PropertyId] = set()
    while part.left:
        try:
            identifier = PropertyId(part.varint())
        except ValueError as error:
            raise malformed(str(error)) from error
        if identifier not in ALLOWED[packet_type]:
            raise malformed(f"{identifier.name} may not stand in packet type {packet_type}")
        several = identifier is _P.USER_PROPERTY or (
            identifier is _P.SUBSCRIPTION_IDENTIFIER and packet_type == 3
        )
        if identifier in seen and not several:
            raise protocol_error(f"{identifier.name} stands twice")
        seen.add(identifier)
        value = _value(identifier, part)
        if value == 0 and identifier in _NOT_ZERO:
            raise BrokenRule(_NOT_ZERO[identifier], f"{identifier.name} is 0")
        if identifier in _FLAGS and value not in (0, 1):
            raise protocol_error(f"{identifier.name} is {value!r}, not 0 or 1")
        found.append((identifier, value))
    return tuple(found)


def _encoded(identifier: PropertyId, value: PropertyValue) -> bytes:
    if isinstance(value, str):
        return fields.string(value)
    if isinstance(value, bytes):
        return fields.binary(value)
    if isinstance(value, tuple):
        return fields.string(value[0]) + fields.string(value[1])
    if identifier in _FLAGS:
        return value.to_bytes(1, "big")
    if identifier in _U16:
        return value.to_bytes(2, "big")
    if identifier in _U32:
        return value.to_bytes(4, "big")
    return fields.varint(value)


def encode(properties: Properties) -> bytes:
    """Encode the property length and the properties in their order."""
    if not properties:
        return b"\0"
    body = b"".join(
        bytes((identifier,)) + _encoded(identifier, value) for identifier, value in properties
    )
    return fields.varint(len(body)) + body


def integer(properties: Properties, identifier: PropertyId, default: int) -> int:
    """Give the integer property of that name, or the default where it is absent."""
    for found, value in properties:
        if found == identifier and isinstance(value, int):
            return value
    return default


def has(properties: Properties, identifier: PropertyId) -> bool:
    """Say whether the property is there."""
    return any(found == identifier for found, _ in properties)
