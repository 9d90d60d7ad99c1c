"""Packets out of a stream of bytes: as many as one read brought, in one pass. Pure."""

from collections.abc import Iterator
from typing import Final

from cloud.broker.codec import packets as p
from cloud.broker.codec.decode import decode, publish
from cloud.broker.codec.packets import Version
from cloud.broker.codec.reasons import BrokenRule, ReasonCode, malformed, protocol_error

CONNECT: Final = 0x10
FIXED_HEADER_BYTES_MAX: Final = 5


class Parser:
    """Incremental: keeps what is left of the last read until its packet is whole.

    The bound holds before the body does: a fixed header that announces more than
    `packet_bytes_max` is refused with 0x95 at once (3.2.2.3.6), so at most that much is buffered.
    """

    __slots__ = (
        "_chunks", "_held_bytes", "_is_started", "_known_topics", "_packet_bytes_max", "_wanted_bytes", "version",
    )  # fmt: skip

    def __init__(self, packet_bytes_max: int, version: Version | None = None) -> None:
        """Expect a CONNECT, which tells the version; with a `version`, anything (client side)."""
        self.version = version or Version.V5
        self._is_started = version is not None
        self._packet_bytes_max = packet_bytes_max
        self._chunks: list[bytes] = []
        self._held_bytes = 0
        self._wanted_bytes = 0
        self._known_topics: dict[bytes, str] = {}

    @property
    def held_bytes(self) -> int:
        """Bytes of an unfinished packet."""
        return self._held_bytes

    def feed(self, data: bytes) -> Iterator[p.Packet]:
        """Yield each whole packet in what was held and `data`.

        Raises:
            BrokenRule: after the packets before the fault were yielded; feed nothing more.

        """
        parts = self._with_held(data) if self._held_bytes else ((data, 0),)
        if data and not self._is_started:
            if data[0] != CONNECT:
                raise protocol_error("the first packet must be CONNECT")  # 3.1.0-1
            self._is_started = True
        version, bytes_max, known = self.version, self._packet_bytes_max, self._known_topics
        for part, start in parts:
            at, size = start, len(part)
            while at < size:
                # a remaining length of one byte, or of two: nearly every packet
                if at + 2 <= size and (length := part[at + 1]) < 0x80:
                    body_at = at + 2
                    end = body_at + length
                elif at + 3 <= size and 0 < part[at + 2] < 0x80:
                    body_at = at + 3
                    end = body_at + (length & 0x7F | part[at + 2] << 7)
                else:
                    header = self._fixed_header(part, at, size)
                    if header is None:
                        break
                    body_at, end = header
                if end - at > bytes_max:
                    why = f"{end - at} bytes announced, {bytes_max} allowed"
                    raise BrokenRule(ReasonCode.PACKET_TOO_LARGE, why)
                if end > size:
                    self._wanted_bytes = end - at
                    break
                first = part[at]
                if first & 0xF0 == 0x30:
                    yield publish(first, part, body_at, end, version, known)
                elif first == 0x40 and end - at == 4 and (part[at + 2] or part[at + 3]):  # 3.4.2.1
                    yield p.Puback(part[at + 2] << 8 | part[at + 3])
                else:
                    packet = decode(first, part, body_at, end, version)
                    if isinstance(packet, p.Connect):
                        version = self.version = packet.version
                    yield packet
                at = end
            if at < size:
                self._chunks.append(part[at:])
                self._held_bytes = size - at

    def _with_held(self, data: bytes) -> tuple[tuple[bytes, int], ...]:
        """Complete the packet that is held: it, and where to go on in `data`; () if it is not yet."""
        missing = self._wanted_bytes - self._held_bytes
        if len(data) < missing:
            self._chunks.append(data)
            self._held_bytes += len(data)
            return ()
        if self._wanted_bytes > FIXED_HEADER_BYTES_MAX:  # what follows need not be copied
            whole = b"".join((*self._chunks, memoryview(data)[:missing]))
            parts: tuple[tuple[bytes, int], ...] = ((whole, 0), (data, missing))
        else:
            parts = ((b"".join((*self._chunks, data)), 0),)
        self._chunks.clear()
        self._held_bytes = 0
        return parts

    def _fixed_header(self, data: bytes, at: int, size: int) -> tuple[int, int] | None:
        """Where the body starts and ends; None, and two bytes wanted, until that is known."""
        length = 0
        for index in range(4):
            here = at + 1 + index
            if here >= size:
                self._wanted_bytes = here - at + 1
                return None
            byte = data[here]
            length |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                if byte == 0 and index:
                    raise malformed("the remaining length must use its shortest form")
                return here + 1, here + 1 + length
        raise malformed("the remaining length has at most four bytes")
