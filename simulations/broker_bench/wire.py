"""Packets packed beforehand and counted by their stride, so that clients cost little. Pure.

Every message of a load has the same size: the n-th packet of a read begins at n times that size,
and one slice with a step takes a byte of each. What does not fit the stride is an error.
"""

from dataclasses import dataclass
from typing import Final

from cloud.broker.codec.encode import publish_header
from cloud.broker.codec.packets import Version

TOPIC_BYTES: Final = 16
"""Topics are padded to one length, so that packets have one size."""
PUBACK_BYTES: Final = 4
JOINED_BYTES_MAX: Final = 2_048
"""Payload up to which a publisher holds copies of whole packets; bigger ones are shared."""
_PUBLISH_QOS_1: Final = 0x32
_PUBACK: Final = 0x40


def topic(index: int) -> str:
    """Give the topic of the publisher with this number, under 10,000,000,000."""
    return f"bench/{index:010}"


@dataclass(frozen=True, slots=True)
class Shape:
    """Where things stand in a QoS 1 PUBLISH (5.0, no properties) of a topic and payload size."""

    header_bytes: int
    packet_id_at: int
    packet_bytes: int

    @classmethod
    def of(cls, payload_bytes: int) -> "Shape":
        """Measure it on a packed one."""
        header = publish_header(b"x" * TOPIC_BYTES, payload_bytes, 0x32, 1, (), Version.V5)
        return cls(len(header), len(header) - 3, len(header) + payload_bytes)


class Ring:
    """The packets of one publisher, whose ids 1..window come round as they are acknowledged."""

    def __init__(self, topic_name: str, payload: bytes, window: int) -> None:
        """Pack them; a payload over `JOINED_BYTES_MAX` is not copied."""
        self.window = window
        self._next = 0
        headers = [
            publish_header(topic_name.encode(), len(payload), 0x32, at + 1, (), Version.V5)
            for at in range(window)
        ] * 2  # twice, so that a run of any window packets stands in one piece
        if len(payload) <= JOINED_BYTES_MAX:
            self._joined = memoryview(b"".join(header + payload for header in headers))
            self._chunks: list[bytes] = []
        else:
            self._joined = memoryview(b"")
            self._chunks = [part for header in headers for part in (header, payload)]
        self._packet_bytes = len(headers[0]) + len(payload)

    def take(self, count: int) -> list[bytes | memoryview]:
        """Give the next `count` packets, at most a window, to be written in order."""
        at, self._next = self._next, (self._next + count) % self.window
        if self._chunks:
            return list(self._chunks[2 * at : 2 * (at + count)])
        return [self._joined[at * self._packet_bytes : (at + count) * self._packet_bytes]]


def pubacks_for(buffer: bytearray, count: int, shape: Shape) -> bytes:
    """Acknowledge the `count` PUBLISH packets that `buffer` begins with.

    Raises:
        ValueError: one of them is no QoS 1 PUBLISH of that shape, sent for the first time.

    """
    end, size, at = count * shape.packet_bytes, shape.packet_bytes, shape.packet_id_at
    if buffer[0:end:size].count(_PUBLISH_QOS_1) != count:
        raise ValueError(f"not a row of QoS 1 PUBLISH of {size} bytes: {bytes(buffer[:8])!r}")
    out = bytearray(b"\x40\x02\0\0" * count)
    out[2::4] = buffer[at:end:size]
    out[3::4] = buffer[at + 1 : end : size]
    return bytes(out)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What a read of PUBACK packets says; `used_bytes` of it were whole packets."""

    count: int
    refused: int
    used_bytes: int


def acknowledged(data: bytes) -> Acknowledged:
    """Count PUBACK packets and those with an error (3.4.2.1).

    Raises:
        ValueError: there is something else.

    """
    count, rest = divmod(len(data), PUBACK_BYTES)
    firsts, lengths = data[0::4], data[1::4]
    if not rest and firsts.count(_PUBACK) == count and lengths.count(2) == count:
        return Acknowledged(count, 0, len(data))
    at = count = refused = 0
    while at + 1 < len(data) and at + 2 + data[at + 1] <= len(data):
        if data[at] != _PUBACK:
            raise ValueError(f"not a PUBACK: {data[at : at + 8]!r}")
        refused += data[at + 1] > 2 and data[at + 4] >= 0x80
        count += 1
        at += 2 + data[at + 1]
    return Acknowledged(count, refused, at)
