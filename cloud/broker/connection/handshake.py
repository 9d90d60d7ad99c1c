"""What a CONNECT asks for and what it is granted (sections 3.1 and 3.2). Pure."""

from dataclasses import dataclass
from typing import Final

from cloud.broker.access.gate import Admission
from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from cloud.broker.codec.properties import Properties, PropertyId, has, integer
from cloud.broker.codec.reasons import BrokenRule, ReasonCode, protocol_error
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
    topic_aliases_max: int
    """Topic aliases that we may set (3.1.2.11.5)."""
    idle_s_max: float | None
    """One and a half times the keep alive (3.1.2-22); None for none."""
    will: tuple[Message, float] | None
    """With its expiry still among its properties, and its delay in seconds."""
    properties: Properties
    """For the CONNACK; 3.1.1 has none."""


def judge(connect: p.Connect, limits: Limits, admission: Admission) -> Granted:
    """Grant a CONNECT of an admitted client its terms.

    Raises:
        BrokenRule: 0x85 for an empty client identifier with a 3.1.1 session to keep (3.1.1
            section 3.1.3-8), 0x87 for a will to a topic that the client may not publish to, 0x8C
            for any authentication method: none is offered.

    """
    v5 = connect.version is Version.V5
    asked = connect.properties
    if has(asked, PropertyId.AUTHENTICATION_METHOD):
        why = "no enhanced authentication here"
        raise BrokenRule(ReasonCode.BAD_AUTHENTICATION_METHOD, why)
    if has(asked, PropertyId.AUTHENTICATION_DATA):  # 3.1.2.11.10
        raise protocol_error("authentication data without a method")
    if not connect.client_id and not v5 and not connect.clean_start:
        why = "an empty client identifier needs a clean session"
        raise BrokenRule(ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, why)
    if connect.will is not None and not admission.rules.may_publish(connect.will.topic):
        why = "the will's topic is not for this client to publish to"
        raise BrokenRule(ReasonCode.NOT_AUTHORIZED, why)
    if v5:
        wanted_s = integer(asked, PropertyId.SESSION_EXPIRY_INTERVAL, 0)
    else:
        wanted_s = 0 if connect.clean_start else limits.session_expiry_s_max
    expiry_s = min(wanted_s, limits.session_expiry_s_max)
    keep_alive_s = connect.keep_alive
    if v5 and not 0 < keep_alive_s <= limits.keep_alive_s_max:
        keep_alive_s = limits.keep_alive_s_max
    told: list[tuple[PropertyId, int | str]] = [
        (PropertyId.RECEIVE_MAXIMUM, limits.receive_maximum),
        (PropertyId.MAXIMUM_PACKET_SIZE, limits.packet_bytes_max),
        (PropertyId.TOPIC_ALIAS_MAXIMUM, limits.topic_alias_maximum),
    ]
    if expiry_s != wanted_s:
        told.append((PropertyId.SESSION_EXPIRY_INTERVAL, expiry_s))
    if keep_alive_s != connect.keep_alive:
        told.append((PropertyId.SERVER_KEEP_ALIVE, keep_alive_s))
    if admission.is_assigned:
        told.append((PropertyId.ASSIGNED_CLIENT_IDENTIFIER, admission.client_id))
    aliases_max = integer(asked, PropertyId.TOPIC_ALIAS_MAXIMUM, 0)
    return Granted(
        admission.client_id,
        connect.version,
        connect.clean_start,
        expiry_s,
        window=min(limits.inflight_max, integer(asked, PropertyId.RECEIVE_MAXIMUM, 65_535)),
        packet_bytes_max=packet_bytes_max(connect),
        topic_aliases_max=min(aliases_max, limits.topic_aliases_sent_max),
        idle_s_max=keep_alive_s * 1.5 or None,
        will=_will(connect.will, admission.client_id),
        properties=tuple(told) if v5 else (),
    )


def packet_bytes_max(connect: p.Connect) -> int:
    """Give the longest packet that this client takes (3.1.2.11.4)."""
    return integer(connect.properties, PropertyId.MAXIMUM_PACKET_SIZE, _NO_LIMIT)


def _will(will: p.Will | None, client_id: str) -> tuple[Message, float] | None:
    if will is None:
        return None
    message = Message(will.topic, will.payload, will.qos, will.retain, will.properties, client_id)
    return message, integer(will.properties, PropertyId.WILL_DELAY_INTERVAL, 0)
