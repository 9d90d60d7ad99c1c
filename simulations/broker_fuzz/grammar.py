"""Valid packets of every type a client sends, in both versions, for where that client stands."""

from collections.abc import Callable
from random import Random
from typing import Final

from simulations.broker_fuzz.client import ClientView
from simulations.broker_fuzz.parts import V5, V311, Draft, Kind, Part, sized, u16, u32, varint

WORDS: Final = ("a", "b", "sport", "ä", "日本", "😀", "\ufeff", "x y", "a" * 40, "")
TEXTS: Final = ("", "x", "user", "ÄÖ", "value with spaces", "\u200b", "z" * 200)


def topic(rng: Random) -> str:
    """A topic name; few levels from few words, so that filters match."""
    found = "/".join(rng.choice(WORDS) for _ in range(rng.choice((1, 1, 2, 3))))
    return found or "a"


def topic_filter(rng: Random) -> str:
    """A filter, shared or not."""
    levels = [rng.choice((*WORDS[:4], "+")) for _ in range(rng.choice((1, 2, 3)))]
    if rng.random() < 0.2:
        levels[-1] = "#"
    found = "/".join(levels) or "a"
    return f"$share/{rng.choice('gh')}/{found}" if rng.random() < 0.2 else found


def _user(rng: Random) -> bytes:
    return b"\x26" + sized(rng.choice(TEXTS)) + sized(rng.choice(TEXTS))


def _some(rng: Random, makers: tuple[Callable[[], bytes], ...]) -> Part:
    """Properties: any of the makers at most once, and user properties, in any order."""
    items = [make() for make in makers if rng.random() < 0.25]
    items += [_user(rng) for _ in range(rng.choice((0, 0, 0, 1, 3)))]
    rng.shuffle(items)
    return Part(Kind.PROPERTIES, items=tuple(items))


def _message(rng: Random) -> tuple[Callable[[], bytes], ...]:
    return (
        lambda: bytes((1, rng.randrange(2))),
        lambda: b"\2" + u32(rng.choice((0, 1, 60, 2**32 - 1))),
        lambda: b"\3" + sized(rng.choice(TEXTS)),
        lambda: b"\x08" + sized(topic(rng)),
        lambda: b"\x09" + sized(rng.randbytes(rng.randrange(20))),
    )


def _reason_tail(rng: Random, reasons: tuple[int, ...], version: int) -> tuple[Part, ...]:
    if version == V311 or rng.random() < 0.4:
        return ()
    reason = Part(Kind.REASON, bytes((rng.choice(reasons),)))
    if rng.random() < 0.5:
        return (reason,)
    return reason, _some(rng, (lambda: b"\x1f" + sized(rng.choice(TEXTS)),))


def connect(rng: Random, view: ClientView, client_id: str) -> Draft:
    """CONNECT (3.1); what it asks for is noted in `view`."""
    v5 = rng.random() < 0.75
    view.version = V5 if v5 else V311
    clean = not client_id or rng.random() < 0.5
    will = rng.random() < 0.3
    name = rng.random() < 0.3
    password = name and rng.random() < 0.5
    flags = clean << 1 | name << 7 | password << 6
    if will:
        flags |= 4 | rng.randrange(3) << 3 | rng.randrange(2) << 5
    parts = [
        Part(Kind.PROTOCOL, sized("MQTT")),
        Part(Kind.LEVEL, bytes((view.version,))),
        Part(Kind.CONNECT_FLAGS, bytes((flags,))),
        Part(Kind.KEEP_ALIVE, u16(rng.choice((0, 1, 60, 65_535)))),
    ]
    if v5:
        view.own_receive_maximum = rng.choice((65_535, 1, 3))
        view.own_packet_bytes_max = rng.choice((1 << 30, 64, 400))
        view.own_alias_maximum = rng.choice((0, 0, 2))
        items = [_user(rng)] if rng.random() < 0.1 else []
        if view.own_receive_maximum < 65_535:
            items.append(b"\x21" + u16(view.own_receive_maximum))
        if view.own_packet_bytes_max < 1 << 30:
            items.append(b"\x27" + u32(view.own_packet_bytes_max))
        if view.own_alias_maximum:
            items.append(b"\x22" + u16(view.own_alias_maximum))
        if rng.random() < 0.6:
            items.append(b"\x11" + u32(rng.choice((0, 5, 3600, 2**32 - 1))))
        items += [bytes((each, rng.randrange(2))) for each in (0x17, 0x19) if rng.random() < 0.1]
        rng.shuffle(items)
        parts.append(Part(Kind.PROPERTIES, items=tuple(items)))
    parts.append(Part(Kind.TEXT, sized(client_id)))
    if will:
        if v5:
            delay = (lambda: b"\x18" + u32(rng.choice((0, 1, 10))),)
            parts.append(_some(rng, (*_message(rng), *delay)))
        parts.append(Part(Kind.TOPIC, sized(topic(rng))))
        parts.append(Part(Kind.BINARY, sized(rng.randbytes(rng.randrange(40)))))
    if name:
        parts.append(Part(Kind.TEXT, sized(rng.choice(TEXTS))))
    if password:
        parts.append(Part(Kind.BINARY, sized(rng.randbytes(rng.randrange(9)))))
    return Draft("CONNECT", 0x10, tuple(parts), view.version)


def publish(rng: Random, view: ClientView) -> Draft:
    """PUBLISH (3.3) within the receive maximum and the aliases of CONNACK."""
    qos = rng.randrange(3)
    if qos == 2 and len(view.open_out) >= min(view.receive_maximum, 60):
        qos = 1
    packet_id = _free_id(rng, view)
    dup = qos > 0 and rng.random() < 0.1
    name = topic(rng)
    parts: list[Part] = []
    extra: list[bytes] = []
    if view.version == V5 and view.alias_maximum and rng.random() < 0.3:
        alias = rng.randint(1, min(view.alias_maximum, 8))
        extra.append(b"\x23" + u16(alias))
        if alias in view.aliases and rng.random() < 0.6:
            name = ""
        view.aliases.add(alias)
    parts.append(Part(Kind.TOPIC, sized(name)))
    if qos:
        parts.append(Part(Kind.PACKET_ID, u16(packet_id)))
    if view.version == V5:
        found = _some(rng, _message(rng)) if rng.random() < 0.4 else Part(Kind.PROPERTIES)
        parts.append(Part(Kind.PROPERTIES, items=(*found.items, *extra)))
    payload = rng.randbytes(rng.choice((0, 1, 20, 20, 300, 3_000)))
    parts.append(Part(Kind.PAYLOAD, payload))
    if qos == 2:
        view.open_out.add(packet_id)
    first = 0x30 | dup << 3 | qos << 1 | (rng.random() < 0.15)
    return Draft("PUBLISH", first, tuple(parts), view.version)


def _free_id(rng: Random, view: ClientView) -> int:
    while (found := rng.choice((rng.randint(1, 40), rng.randint(1, 65_535)))) in view.open_out:
        pass
    return found


def subscribe(rng: Random, view: ClientView) -> Draft:
    """SUBSCRIBE (3.8)."""
    parts = [Part(Kind.PACKET_ID, u16(_free_id(rng, view)))]
    if view.version == V5:
        identifier = (lambda: b"\x0b" + varint(rng.choice((1, 127, 128, 268_435_455))),)
        parts.append(_some(rng, identifier))
    for _ in range(rng.choice((1, 1, 2, 5))):
        wanted = topic_filter(rng)
        options = rng.randrange(3)
        if view.version == V5:
            options |= rng.randrange(2) << 3 | rng.randrange(3) << 4
            options |= 0 if wanted.startswith("$share/") else rng.randrange(2) << 2
        parts += [Part(Kind.FILTER, sized(wanted)), Part(Kind.OPTIONS, bytes((options,)))]
    return Draft("SUBSCRIBE", 0x82, tuple(parts), view.version)


def unsubscribe(rng: Random, view: ClientView) -> Draft:
    """UNSUBSCRIBE (3.10)."""
    parts = [Part(Kind.PACKET_ID, u16(_free_id(rng, view)))]
    if view.version == V5:
        parts.append(_some(rng, ()))
    parts += [Part(Kind.FILTER, sized(topic_filter(rng))) for _ in range(rng.choice((1, 1, 3)))]
    return Draft("UNSUBSCRIBE", 0xA2, tuple(parts), view.version)


def acknowledgement(rng: Random, view: ClientView) -> Draft | None:
    """The answer to something the broker sent, in order, or one to nothing."""
    bad = 0x80 if rng.random() < 0.1 else 0
    if view.to_puback:
        packet_id = view.to_puback.pop(0)
        view.in_flight.discard(packet_id)
        return _answer(rng, view, "PUBACK", 0x40, packet_id, (0, bad))
    if view.to_pubrec:
        packet_id = view.to_pubrec.pop(0)
        draft = _answer(rng, view, "PUBREC", 0x50, packet_id, (bad,))
        if any(part.kind is Kind.REASON and part.data[0] >= 0x80 for part in draft.parts):
            view.in_flight.discard(packet_id)
        return draft
    if view.to_pubcomp:
        packet_id = view.to_pubcomp.pop(0)
        view.in_flight.discard(packet_id)
        return _answer(rng, view, "PUBCOMP", 0x70, packet_id, (0,))
    if view.open_out and rng.random() < 0.7:
        packet_id = view.open_out.pop()
        return _answer(rng, view, "PUBREL", 0x62, packet_id, (0, 0x92))
    name, first = rng.choice((
        ("PUBREL", 0x62), ("PUBREC", 0x50), ("PUBACK", 0x40), ("PUBCOMP", 0x70),
    ))  # fmt: skip
    packet_id = rng.randint(50_000, 60_000)
    if packet_id in view.in_flight or packet_id in view.open_out:
        return None
    return _answer(rng, view, name, first, packet_id, (0,))


def _answer(
    rng: Random, view: ClientView, name: str, first: int, packet_id: int, reasons: tuple[int, ...]
) -> Draft:
    tail = _reason_tail(rng, reasons, view.version)
    return Draft(name, first, (Part(Kind.PACKET_ID, u16(packet_id)), *tail), view.version)


def ping(view: ClientView) -> Draft:
    """PINGREQ (3.12)."""
    return Draft("PINGREQ", 0xC0, (), view.version)


def disconnect(rng: Random, view: ClientView) -> Draft:
    """DISCONNECT (3.14)."""
    return Draft("DISCONNECT", 0xE0, _reason_tail(rng, (0, 4, 0x80), view.version), view.version)


def any_packet(rng: Random, view: ClientView) -> Draft:
    """One packet that is fine to send on an open connection; DISCONNECT is rare."""
    draw = rng.random()
    if draw < 0.45:
        return publish(rng, view)
    if draw < 0.6:
        return subscribe(rng, view)
    if draw < 0.65:
        return unsubscribe(rng, view)
    if draw < 0.94:
        return acknowledgement(rng, view) or ping(view)
    return ping(view) if draw < 0.99 else disconnect(rng, view)
