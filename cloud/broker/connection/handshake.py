"""What a CONNECT asks for and what it is granted (sections 3.1 and 3.2). Pure."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from cloud.broker.codec.properties import Properties, PropertyId, has, integer
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from cloud.broker.limits import Limits
from cloud.broker.session.messages import Message

_NO_LIMIT: Final = 1 << 32


@dataclass(frozen=True, slots=True)
class Granted:
    """The terms of one connection."""

    client_id: str
    version: Version
    clean: bool
    expiry_s: float
    window: int
    """QoS>0 messages that may be in flight towards the client."""
    packet_bytes_max: int
    """Largest packet the client takes (3.1.2.11.4)."""
    idle_s_max: float | None
    """One and a half times the keep alive (3.1.2-22); None for none."""
    will: p.Will | None
    properties: Properties
    """For the CONNACK; 3.1.1 has none."""


def judge(connect: p.Connect, limits: Limits, new_client_id: Callable[[], str]) -> Granted:
    """Grant a CONNECT its terms.

    Raises:
        BrokenRule: 0x85 for an empty client identifier with a 3.1.1 session to keep (3.1.1
            section 3.1.3-8), 0x8C for any authentication method: none is offered.

    """
    v5 = connect.version is Version.V5
    asked = connect.properties
    if has(asked, PropertyId.AUTHENTICATION_METHOD):
        why = "no enhanced authentication here"
        raise BrokenRule(ReasonCode.BAD_AUTHENTICATION_METHOD, why)
    if not connect.client_id and not v5 and not connect.clean_start:
        why = "an empty client identifier needs a clean session"
        raise BrokenRule(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)
    client_id = connect.client_id or new_client_id()
    if v5:
        wanted_s = integer(asked, PropertyId.SESSION_EXPIRY_INTERVAL, 0)
    else:
        wanted_s = 0 if connect.clean_start else limits.session_expiry_s_max
    expiry_s = min(wanted_s, limits.session_expiry_s_max)
    told: list[tuple[PropertyId, int | str]] = [
        (PropertyId.RECEIVE_MAXIMUM, limits.receive_maximum),
        (PropertyId.MAXIMUM_PACKET_SIZE, limits.packet_bytes_max),
        (PropertyId.TOPIC_ALIAS_MAXIMUM, limits.topic_alias_maximum),
    ]
    if expiry_s != wanted_s:
        told.append((PropertyId.SESSION_EXPIRY_INTERVAL, expiry_s))
    if not connect.client_id:
        told.append((PropertyId.ASSIGNED_CLIENT_IDENTIFIER, client_id))
    return Granted(
        client_id,
        connect.version,
        connect.clean_start,
        expiry_s,
        window=min(limits.inflight_max, integer(asked, PropertyId.RECEIVE_MAXIMUM, 65_535)),
        packet_bytes_max=integer(asked, PropertyId.MAXIMUM_PACKET_SIZE, _NO_LIMIT),
        idle_s_max=connect.keep_alive * 1.5 or None,
        will=connect.will,
        properties=tuple(told) if v5 else (),
    )


def will_of(granted: Granted, now: float) -> tuple[Message, float] | None:
    """Make the will of a connection that broke at `now` a message, with its delay in seconds."""
    will = granted.will
    if will is None:
        return None
    forwarded, expires_at = split_expiry(will.properties, now)
    message = Message(
        will.topic, will.payload, will.qos, will.retain, forwarded, granted.client_id, expires_at
    )
    return message, integer(will.properties, PropertyId.WILL_DELAY_INTERVAL, 0)


_NOT_FORWARDED: Final = frozenset({
    PropertyId.MESSAGE_EXPIRY_INTERVAL, PropertyId.TOPIC_ALIAS, PropertyId.WILL_DELAY_INTERVAL,
})  # fmt: skip


def split_expiry(found: Properties, now: float) -> tuple[Properties, float | None]:
    """Part what is forwarded unaltered (3.3.2.3) from when the message expires."""
    expiry_s = integer(found, PropertyId.MESSAGE_EXPIRY_INTERVAL, -1)
    kept = tuple(one for one in found if one[0] not in _NOT_FORWARDED)
    return kept, now + expiry_s if expiry_s >= 0 else None
