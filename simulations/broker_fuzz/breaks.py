"""Ways to break a valid packet; each gives None where it does not apply."""

from random import Random

from simulations.broker_fuzz.bad_values import BAD_TEXTS, FORBIDDEN, UNKNOWN, WILDCARDS
from simulations.broker_fuzz.client import ClientView
from simulations.broker_fuzz.parts import STRINGS, V5, Draft, Kind, Part, framed, sized, u16, varint


def _longer_varint(rng: Random, value: int) -> bytes:
    """Five bytes, or a form with needless zeros."""
    plain = bytearray(varint(value))
    if rng.random() < 0.5 and len(plain) < 4:
        plain[-1] |= 0x80
        plain += b"\x80" * rng.randrange(4 - len(plain)) + b"\0"
        return bytes(plain)
    return bytes(0x80 | rng.randrange(128) for _ in range(4)) + b"\1"


def remaining_length(draft: Draft, rng: Random, _: ClientView) -> bytes:
    """Give the remaining length in a longer form than needed, or in five bytes."""
    body = draft.body()
    return bytes((draft.first,)) + _longer_varint(rng, len(body)) + body


def too_large(draft: Draft, rng: Random, _: ClientView) -> bytes:
    """Announce more than any broker takes."""
    announced = varint(rng.choice((1 << 21, 1 << 26, 268_435_455)))
    return bytes((draft.first,)) + announced + draft.body()


def flags(draft: Draft, rng: Random, _: ClientView) -> bytes | None:
    """Set other flags than the packet type has."""
    if draft.name == "PUBLISH":
        return None
    return framed(draft.first ^ rng.randint(1, 15), draft.body())


def qos_3(draft: Draft, _: Random, __: ClientView) -> bytes | None:
    """Ask for QoS 3."""
    return framed(draft.first | 6, draft.body()) if draft.name == "PUBLISH" else None


def dup_qos_0(draft: Draft, _: Random, __: ClientView) -> bytes | None:
    """Set DUP where there is nothing to send again."""
    if draft.name != "PUBLISH" or draft.first & 6:
        return None
    return framed(draft.first | 8, draft.body())


def cut_head(draft: Draft, rng: Random, _: ClientView) -> bytes | None:
    """Cut in the part every byte of which must be there."""
    if draft.name == "CONNECT":
        whole = len(draft.body())
    elif draft.name == "PUBLISH":
        whole = len(draft.body()) - len(draft.parts[-1].data)
    elif draft.name in ("SUBSCRIBE", "UNSUBSCRIBE"):
        whole = 3 if draft.version == V5 else 2
    elif draft.name in ("PUBACK", "PUBREC", "PUBREL", "PUBCOMP"):
        whole = 2
    else:
        return None
    return framed(draft.first, draft.body()[: rng.randrange(whole)])


def cut_anywhere(draft: Draft, rng: Random, _: ClientView) -> bytes:
    """End early."""
    body = draft.body()
    return framed(draft.first, body[: rng.randint(0, len(body))])


def trailing(draft: Draft, rng: Random, _: ClientView) -> bytes | None:
    """Add bytes after the last field."""
    if draft.name not in ("CONNECT", "PINGREQ"):
        return None
    return framed(draft.first, draft.body() + rng.randbytes(rng.randint(1, 5)))


def inner_length(draft: Draft, rng: Random, _: ClientView) -> bytes | None:
    """A string, binary or property length that lies."""
    lengths = [i for i, part in enumerate(draft.parts) if part.kind in (*STRINGS, Kind.BINARY)]
    inner = draft.having(Kind.PROPERTIES)
    if not lengths and not inner:
        return None
    index = rng.choice(lengths + inner)
    wire = draft.parts[index].wire()
    lie = rng.choice((0, 1, 2, 127, 128, 255, 65_535))
    head = varint(lie) + wire[1:] if index in inner else u16(lie) + wire[2:]
    return draft.with_part(index, Part(Kind.BINARY, head)).wire()


def property_length(draft: Draft, rng: Random, _: ClientView) -> bytes | None:
    """Give the property length in a longer form than needed, or in five bytes."""
    found = draft.having(Kind.PROPERTIES)
    if not found:
        return None
    index = rng.choice(found)
    body = b"".join(draft.parts[index].items)
    return draft.with_part(index, Part(Kind.BINARY, _longer_varint(rng, len(body)) + body)).wire()


def bad_text(draft: Draft, rng: Random, _: ClientView) -> bytes | None:
    """Put something that is no text where text is due."""
    found = [index for index, part in enumerate(draft.parts) if part.kind in STRINGS]
    if not found:
        return None
    index = rng.choice(found)
    return draft.with_part(index, Part(Kind.BINARY, sized(rng.choice(BAD_TEXTS)))).wire()


def bad_text_property(draft: Draft, rng: Random, view: ClientView) -> bytes | None:
    """The same in a user property."""
    bad = sized(rng.choice(BAD_TEXTS))
    return _add_property(draft, rng, view, rng.choice((b"\x26\0\0" + bad, b"\x26" + bad + b"\0\0")))


def _add_property(draft: Draft, rng: Random, _: ClientView, item: bytes) -> bytes | None:
    found = draft.having(Kind.PROPERTIES)
    if not found:
        return None
    index = rng.choice(found)
    items = list(draft.parts[index].items)
    items.insert(rng.randint(0, len(items)), item)
    return draft.with_part(index, Part(Kind.PROPERTIES, items=tuple(items))).wire()


def forbidden(draft: Draft, rng: Random, view: ClientView) -> bytes | None:
    """Add a property that may not stand here, or that does not exist."""
    wrong = (*FORBIDDEN.get(draft.name, ()), *UNKNOWN)
    if len(draft.having(Kind.PROPERTIES)) > 1:
        wrong = UNKNOWN  # one of the two is a will's, which may hold others
    return _add_property(draft, rng, view, rng.choice(wrong))


def repeated(draft: Draft, rng: Random, _: ClientView) -> bytes | None:
    """Repeat a property that may stand once."""
    places = [
        (index, item)
        for index in draft.having(Kind.PROPERTIES)
        for item in draft.parts[index].items
        if item[0] != 0x26
    ]
    if not places:
        return None
    index, item = rng.choice(places)
    items = (*draft.parts[index].items, item)
    return draft.with_part(index, Part(Kind.PROPERTIES, items=items)).wire()


def packet_id_0(draft: Draft, _: Random, __: ClientView) -> bytes | None:
    """Use the identifier 0."""
    found = draft.having(Kind.PACKET_ID)
    return draft.with_part(found[0], Part(Kind.PACKET_ID, b"\0\0")).wire() if found else None


def wildcard(draft: Draft, rng: Random, _: ClientView) -> bytes | None:
    """Put a wildcard into a topic name."""
    found = draft.having(Kind.TOPIC)
    if not found:
        return None
    return draft.with_part(found[0], Part(Kind.TOPIC, sized(rng.choice(WILDCARDS)))).wire()


def response_wildcard(draft: Draft, rng: Random, view: ClientView) -> bytes | None:
    """Put a wildcard into a response topic."""
    if draft.name != "PUBLISH" or any(item[0] == 8 for part in draft.parts for item in part.items):
        return None
    return _add_property(draft, rng, view, b"\x08" + sized(rng.choice(WILDCARDS)))


def no_topic(draft: Draft, _: Random, __: ClientView) -> bytes | None:
    """Leave the topic empty without an alias."""
    if draft.name != "PUBLISH" or any(item[0] == 0x23 for pt in draft.parts for item in pt.items):
        return None
    return draft.with_part(0, Part(Kind.TOPIC, b"\0\0")).wire()


def bad_alias(draft: Draft, rng: Random, view: ClientView) -> bytes | None:
    """Use alias 0 or one over the maximum."""
    if draft.name != "PUBLISH" or any(item[0] == 0x23 for pt in draft.parts for item in pt.items):
        return None
    alias = rng.choice((0, min(65_535, view.alias_maximum + 1), 65_535))
    return _add_property(draft, rng, view, b"\x23" + u16(alias))


def unset_alias(draft: Draft, rng: Random, view: ClientView) -> bytes | None:
    """Use an alias that stands for nothing."""
    if draft.name != "PUBLISH" or any(item[0] == 0x23 for pt in draft.parts for item in pt.items):
        return None
    unset = [one for one in range(1, min(view.alias_maximum, 32) + 1) if one not in view.aliases]
    if draft.version != V5 or not unset:
        return None
    bare = draft.with_part(0, Part(Kind.TOPIC, b"\0\0"))
    return _add_property(bare, rng, view, b"\x23" + u16(rng.choice(unset)))


def identifier_from_client(draft: Draft, rng: Random, view: ClientView) -> bytes | None:
    """Add a subscription identifier, which only a server sends."""
    return _add_property(draft, rng, view, b"\x0b\1") if draft.name == "PUBLISH" else None


def bad_options(draft: Draft, rng: Random, _: ClientView) -> bytes | None:
    """Set reserved bits or values in subscription options."""
    found = draft.having(Kind.OPTIONS)
    if not found:
        return None
    index = rng.choice(found)
    options = draft.parts[index].data[0]
    options |= rng.choice((3, 0x30, 0x40, 0x80) if draft.version == V5 else (3, 4, 8, 0x10, 0x80))
    return draft.with_part(index, Part(Kind.OPTIONS, bytes((options,)))).wire()


def connect_flags(draft: Draft, rng: Random, _: ClientView) -> bytes | None:
    """Set flags of CONNECT that contradict each other."""
    if draft.name != "CONNECT":
        return None
    flags = draft.parts[2].data[0]
    wrong = [flags | 1]
    wrong += [flags | 0x18] if flags & 4 else [flags | 8, flags | 0x20]
    return draft.with_part(2, Part(Kind.CONNECT_FLAGS, bytes((rng.choice(wrong),)))).wire()


def level(draft: Draft, rng: Random, _: ClientView) -> bytes | None:
    """Name a protocol level that nobody speaks."""
    if draft.name != "CONNECT":
        return None
    return draft.with_part(1, Part(Kind.LEVEL, bytes((rng.choice((0, 1, 3, 6, 255)),)))).wire()


def protocol(draft: Draft, rng: Random, _: ClientView) -> bytes | None:
    """Name another protocol."""
    if draft.name != "CONNECT":
        return None
    name = sized(rng.choice(("mqtt", "MQTT5", "", "HTTP", "MQIsd")))
    return draft.with_part(0, Part(Kind.PROTOCOL, name)).wire()


def zero_property(draft: Draft, rng: Random, view: ClientView) -> bytes | None:
    """Give 0 to a property that must not be 0."""
    names = {"CONNECT": (b"\x21\0\0", b"\x27\0\0\0\0"), "SUBSCRIBE": (b"\x0b\0",)}
    found = draft.having(Kind.PROPERTIES)
    if draft.name not in names or len(found) != 1:
        return None
    item = rng.choice(names[draft.name])
    items = tuple(one for one in draft.parts[found[0]].items if one[0] != item[0])
    bare = draft.with_part(found[0], Part(Kind.PROPERTIES, items=items))
    return _add_property(bare, rng, view, item)


def no_filter(draft: Draft, _: Random, __: ClientView) -> bytes | None:
    """Leave out every topic filter."""
    if draft.name not in ("SUBSCRIBE", "UNSUBSCRIBE"):
        return None
    head = b"".join(part.wire() for part in draft.parts if part.kind is not Kind.FILTER
                    and part.kind is not Kind.OPTIONS)  # fmt: skip
    return framed(draft.first, head)


def not_for_clients(draft: Draft, rng: Random, view: ClientView) -> bytes | None:
    """Send what only a server sends, or AUTH unasked."""
    if draft.name == "CONNECT":
        return None
    tail = b"\0" if view.version == V5 else b""
    packets = [b"\x20" + varint(2 + len(tail)) + b"\0\0" + tail, b"\xd0\x00",
               framed(0x90, b"\0\1" + tail + b"\0"), framed(0xB0, b"\0\1" + tail)]  # fmt: skip
    if view.version == V5:
        packets.append(b"\xf0\x00")
    return rng.choice(packets)


def second_connect(draft: Draft, rng: Random, view: ClientView) -> bytes | None:
    """Connect again."""
    if draft.name == "CONNECT":
        return None
    tail = b"\0" if view.version == V5 else b""
    client_id = sized(rng.choice(("c0", "x", "")))
    return framed(0x10, sized("MQTT") + bytes((view.version, 2, 0, 0)) + tail + client_id)


def flip(draft: Draft, rng: Random, __: ClientView) -> bytes:
    """Flip some bits."""
    wire = bytearray(draft.wire())
    for _ in range(rng.choice((1, 1, 2, 8))):
        wire[rng.randrange(len(wire))] ^= 1 << rng.randrange(8)
    return bytes(wire)


def garbage(draft: Draft, rng: Random, _: ClientView) -> bytes:
    """Send random bytes after a good first one."""
    return bytes((draft.first,)) + rng.randbytes(rng.randint(1, 200))


def spliced(draft: Draft, rng: Random, _: ClientView) -> bytes:
    """Replace a stretch by a few random bytes."""
    wire = draft.wire()
    at = rng.randrange(len(wire))
    return wire[:at] + rng.randbytes(rng.randrange(4)) + wire[rng.randrange(at, len(wire)) :]
