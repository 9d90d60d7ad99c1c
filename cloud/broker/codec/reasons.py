"""Reason codes (MQTT 5.0 section 2.4) and the one exception the codec and the rules raise."""

from enum import IntEnum
from typing import Final

from shared.errors import Malformed


class ReasonCode(IntEnum):
    """Section 2.4, table 2-6. Below 0x80 is success. 0x00 is also Granted QoS 0."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    CONNECTION_RATE_EXCEEDED = 0x9F


CONNECT_RETURN_CODE: Final[dict[ReasonCode, int]] = {
    ReasonCode.SUCCESS: 0,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: 1,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: 2,
    ReasonCode.SERVER_UNAVAILABLE: 3,
    ReasonCode.SERVER_BUSY: 3,
    ReasonCode.QUOTA_EXCEEDED: 3,
    ReasonCode.CONNECTION_RATE_EXCEEDED: 3,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: 4,
    ReasonCode.NOT_AUTHORIZED: 5,
}
"""How a refused CONNECT is told to a 3.1.1 client (3.1.1 section 3.2.2.3); others just close."""


class BrokenRule(Malformed):
    """A peer broke a rule of the protocol; the connection must close with `reason` (4.13)."""

    def __init__(self, reason: ReasonCode, why: str) -> None:
        """Keep the reason code for DISCONNECT or CONNACK and the text for the log."""
        super().__init__(f"{why} (reason {reason:#04x})")
        self.reason = reason
        self.why = why
        self.version: int | None = None
        """Of the CONNECT that broke the rule, where it could be read that far."""


def malformed(why: str) -> BrokenRule:
    """A packet that cannot be parsed (section 1.2, Malformed Packet)."""
    return BrokenRule(ReasonCode.MALFORMED_PACKET, why)


def protocol_error(why: str) -> BrokenRule:
    """A packet that parses but says what it must not (section 1.2, Protocol Error)."""
    return BrokenRule(ReasonCode.PROTOCOL_ERROR, why)
