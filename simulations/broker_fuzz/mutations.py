"""The ways to break a packet by name, and the reason codes that the specification allows for each.

`is_wrong` says that what it made must be refused; without it the bytes may still mean something,
and only the manner of a refusal is judged.
"""

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from simulations.broker_fuzz import breaks
from simulations.broker_fuzz.client import ClientView
from simulations.broker_fuzz.parts import Draft

MALFORMED: Final = frozenset({0x81})
PROTOCOL: Final = frozenset({0x82})
EITHER: Final = MALFORMED | PROTOCOL
ANY: Final = frozenset({0x81, 0x82, 0x84, 0x85, 0x87, 0x8C, 0x90, 0x93, 0x94, 0x95, 0x97})


class Mutation(NamedTuple):
    """One way to break a packet."""

    name: str
    make: Callable[[Draft, Random, ClientView], bytes | None]
    reasons: frozenset[int]
    is_wrong: bool = True


MUTATIONS: Final = (
    Mutation("remaining length over-long", breaks.remaining_length, MALFORMED),
    Mutation("packet too large", breaks.too_large, frozenset({0x95})),
    Mutation("reserved flags", breaks.flags, EITHER),
    Mutation("QoS 3", breaks.qos_3, MALFORMED),
    Mutation("DUP with QoS 0", breaks.dup_qos_0, EITHER),
    Mutation("cut in its head", breaks.cut_head, EITHER),
    Mutation("cut anywhere", breaks.cut_anywhere, ANY, is_wrong=False),
    Mutation("bytes after the end", breaks.trailing, MALFORMED),
    Mutation("a length lies", breaks.inner_length, ANY, is_wrong=False),
    Mutation("property length over-long", breaks.property_length, MALFORMED),
    Mutation("bad text", breaks.bad_text, MALFORMED),
    Mutation("bad text in a property", breaks.bad_text_property, MALFORMED),
    Mutation("property not allowed", breaks.forbidden, EITHER),
    Mutation("property repeated", breaks.repeated, PROTOCOL | {0x94}),
    Mutation("packet identifier 0", breaks.packet_id_0, EITHER),
    Mutation("wildcard in a topic", breaks.wildcard, frozenset({0x90})),
    Mutation("wildcard in a response topic", breaks.response_wildcard, frozenset({0x90, 0x82})),
    Mutation("no topic", breaks.no_topic, EITHER | {0x90}),
    Mutation("alias 0 or too high", breaks.bad_alias, frozenset({0x94})),
    Mutation("alias never set", breaks.unset_alias, PROTOCOL),
    Mutation("subscription identifier from a client", breaks.identifier_from_client, EITHER),
    Mutation("bad subscription options", breaks.bad_options, EITHER),
    Mutation("bad connect flags", breaks.connect_flags, MALFORMED),
    Mutation("unknown level", breaks.level, frozenset({0x84, 0x81})),
    Mutation("unknown protocol", breaks.protocol, frozenset({0x84, 0x81})),
    Mutation("a property of 0", breaks.zero_property, PROTOCOL),
    Mutation("no filter", breaks.no_filter, EITHER),
    Mutation("not for a client to send", breaks.not_for_clients, PROTOCOL),
    Mutation("a second CONNECT", breaks.second_connect, PROTOCOL),
    Mutation("bits flipped", breaks.flip, ANY, is_wrong=False),
    Mutation("garbage", breaks.garbage, ANY, is_wrong=False),
    Mutation("spliced", breaks.spliced, ANY, is_wrong=False),
)
