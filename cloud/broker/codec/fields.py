"""Data representation (section 1.5): integers, strings and binary data from and to bytes. Pure."""

from typing import Final

from cloud.broker.codec.reasons import malformed

VARINT_MAX: Final = 268_435_455
BINARY_BYTES_MAX: Final = 65_535


class Reader:
    """Reads fields one after another from `data[at:end]`; running off the end is malformed."""

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        """Read from `at` up to `end`, by default the end of `data`."""
        self._data = data
        self._at = at
        self._end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self._end - self._at

    def _take(self, count: int) -> int:
        at = self._at
        if at + count > self._end:
            raise malformed(f"the packet ends {at + count - self._end} bytes too early")
        self._at = at + count
        return at

    def u8(self) -> int:
        """One byte (1.5.1)."""
        return self._data[self._take(1)]

    def u16(self) -> int:
        """Two Byte Integer (1.5.2)."""
        at = self._take(2)
        return self._data[at] << 8 | self._data[at + 1]

    def u32(self) -> int:
        """Four Byte Integer (1.5.3)."""
        at = self._take(4)
        return int.from_bytes(self._data[at : at + 4], "big")

    def varint(self) -> int:
        """Variable Byte Integer, one to four bytes, in its shortest form (1.5.5)."""
        value = 0
        for shift in (0, 7, 14, 21):
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    raise malformed("a variable byte integer must use its shortest form")
                return value
        raise malformed("a variable byte integer has at most four bytes")

    def binary(self) -> bytes:
        """Binary Data with a two byte length (1.5.6)."""
        return self.raw(self.u16())

    def string(self) -> str:
        """UTF-8 Encoded String without U+0000 or surrogates (1.5.4)."""
        try:
            text = self.binary().decode()
        except UnicodeDecodeError as error:
            raise malformed("a string is not UTF-8") from error
        if "\0" in text:
            raise malformed("a string holds U+0000")
        return text

    def raw(self, count: int) -> bytes:
        """Exactly `count` bytes."""
        at = self._take(count)
        return self._data[at : at + count]

    def part(self, count: int) -> "Reader":
        """Give a reader over the next `count` bytes and step over them."""
        at = self._take(count)
        return Reader(self._data, at, at + count)

    def finish(self) -> None:
        """Refuse bytes after the last field."""
        if self.left:
            raise malformed(f"{self.left} bytes follow the last field")


def varint(value: int) -> bytes:
    """Encode a Variable Byte Integer (1.5.5)."""
    if value < 0x80:
        return bytes((value,))
    if value > VARINT_MAX:
        raise malformed(f"{value} does not fit a variable byte integer")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def binary(value: bytes) -> bytes:
    """Encode Binary Data (1.5.6)."""
    if len(value) > BINARY_BYTES_MAX:
        raise malformed(f"{len(value)} bytes do not fit a two byte length")
    return len(value).to_bytes(2, "big") + value


def string(value: str) -> bytes:
    """Encode a UTF-8 Encoded String (1.5.4)."""
    return binary(value.encode())
