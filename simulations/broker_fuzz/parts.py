"""Control packets as parts that can be broken one by one. No code of the broker is used."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

V311: Final = 4
V5: Final = 5


class Kind(StrEnum):
    """What a part of a packet is."""

    PROTOCOL = "protocol"
    LEVEL = "level"
    CONNECT_FLAGS = "connect_flags"
    KEEP_ALIVE = "keep_alive"
    TEXT = "text"
    BINARY = "binary"
    PACKET_ID = "packet_id"
    TOPIC = "topic"
    FILTER = "filter"
    OPTIONS = "options"
    REASON = "reason"
    PAYLOAD = "payload"
    PROPERTIES = "properties"


STRINGS: Final = frozenset({Kind.TEXT, Kind.TOPIC, Kind.FILTER})


@dataclass(frozen=True, slots=True)
class Part:
    """A field as it stands on the wire; `items` are the properties of a property part."""

    kind: Kind
    data: bytes = b""
    items: tuple[bytes, ...] = ()

    def wire(self) -> bytes:
        """Its bytes."""
        if self.kind is not Kind.PROPERTIES:
            return self.data
        body = b"".join(self.items)
        return varint(len(body)) + body


@dataclass(frozen=True, slots=True)
class Draft:
    """A packet before it is bytes."""

    name: str
    first: int
    parts: tuple[Part, ...]
    version: int

    def body(self) -> bytes:
        """Everything after the fixed header."""
        return b"".join(part.wire() for part in self.parts)

    def wire(self) -> bytes:
        """The whole packet."""
        return framed(self.first, self.body())

    def having(self, kind: Kind) -> list[int]:
        """Give the places of the parts of a kind."""
        return [index for index, part in enumerate(self.parts) if part.kind is kind]

    def with_part(self, index: int, part: Part) -> "Draft":
        """Replace one part."""
        return replace(self, parts=(*self.parts[:index], part, *self.parts[index + 1 :]))


def varint(value: int) -> bytes:
    """Variable Byte Integer (1.5.5)."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def framed(first: int, body: bytes) -> bytes:
    """A fixed header and what follows it (2.1)."""
    return bytes((first,)) + varint(len(body)) + body


def u16(value: int) -> bytes:
    """Two Byte Integer (1.5.2)."""
    return value.to_bytes(2, "big")


def u32(value: int) -> bytes:
    """Four Byte Integer (1.5.3)."""
    return value.to_bytes(4, "big")


def sized(data: bytes | str) -> bytes:
    """Binary Data or a UTF-8 Encoded String (1.5.4, 1.5.6)."""
    raw = data.encode() if isinstance(data, str) else data
    return u16(len(raw)) + raw
