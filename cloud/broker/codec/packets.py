"""The control packets (section 3) as values. Version 3.1.1 uses the same ones, without properties.

Field names are those of the specification. `properties` are in the order of the wire. Nobody changes
a packet once it is made; the two that come by the thousand are not frozen, as that takes 2 us each.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from cloud.broker.codec.properties import Properties

Qos = Literal[0, 1, 2]


class Version(IntEnum):
    """Protocol Version byte of a CONNECT (3.1.2.2)."""

    V311 = 4
    V5 = 5


@dataclass(frozen=True, slots=True)
class Will:
    """Will message of a CONNECT (3.1.2.5, 3.1.3.2)."""

    topic: str
    payload: bytes
    qos: Qos = 0
    retain: bool = False
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Connect:
    """CONNECT (3.1). `keep_alive` in seconds, 0 for none."""

    client_id: str
    version: Version = Version.V5
    clean_start: bool = True
    keep_alive: int = 0
    will: Will | None = None
    username: str | None = None
    password: bytes | None = None
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Connack:
    """CONNACK (3.2). `reason` is a return code where the version is 3.1.1."""

    session_present: bool
    reason: int
    properties: Properties = ()


@dataclass(slots=True)
class Publish:
    """PUBLISH (3.3). `packet_id` is 0 with QoS 0; `topic` is empty where an alias stands for it."""

    topic: str
    payload: bytes
    qos: Qos = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = ()


@dataclass(slots=True)
class Puback:
    """PUBACK (3.4)."""

    packet_id: int
    reason: int = 0
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Pubrec:
    """PUBREC (3.5)."""

    packet_id: int
    reason: int = 0
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Pubrel:
    """PUBREL (3.6)."""

    packet_id: int
    reason: int = 0
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Pubcomp:
    """PUBCOMP (3.7)."""

    packet_id: int
    reason: int = 0
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Subscription:
    """One topic filter of a SUBSCRIBE and its options (3.8.3.1)."""

    topic_filter: str
    qos: Qos = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: Literal[0, 1, 2] = 0


@dataclass(frozen=True, slots=True)
class Subscribe:
    """SUBSCRIBE (3.8)."""

    packet_id: int
    subscriptions: tuple[Subscription, ...]
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Suback:
    """SUBACK (3.9), one reason for each filter."""

    packet_id: int
    reasons: tuple[int, ...]
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """UNSUBSCRIBE (3.10)."""

    packet_id: int
    topic_filters: tuple[str, ...]
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Unsuback:
    """UNSUBACK (3.11); 3.1.1 carries no reasons."""

    packet_id: int
    reasons: tuple[int, ...] = ()
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Pingreq:
    """PINGREQ (3.12)."""


@dataclass(frozen=True, slots=True)
class Pingresp:
    """PINGRESP (3.13)."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """DISCONNECT (3.14)."""

    reason: int = 0
    properties: Properties = ()


@dataclass(frozen=True, slots=True)
class Auth:
    """AUTH (3.15), version 5.0 only."""

    reason: int = 0
    properties: Properties = ()


Packet = (
    Connect | Connack | Publish | Puback | Pubrec | Pubrel | Pubcomp | Subscribe | Suback
    | Unsubscribe | Unsuback | Pingreq | Pingresp | Disconnect | Auth
)  # fmt: skip
