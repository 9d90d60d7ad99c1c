"""Content encodings of bodies: gzip, deflate, zstd, never more than a bound. Pure.

aiohttp's own decompression is off: it has no zstd without another package, and no bound of ours.
"""

import re
import zlib
from typing import Literal, get_args

import zstandard

from cloud.api.problems import UnknownEncoding
from shared.errors import Malformed, TooLarge

Encoding = Literal["zstd", "gzip", "deflate"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)

_WINDOW_BYTES_MAX = 8 * 1024 * 1024  # what RFC 8878 asks every decoder to take; more is memory
_GAIN_MIN = 0.1  # an answer that shrinks by less travels as it is
_ZLIB, _GZIP = zlib.MAX_WBITS, zlib.MAX_WBITS | 16
_WEIGHTED = re.compile(r"\s*([A-Za-z0-9*._-]{1,32})\s*(?:;\s*q=([01](?:\.[0-9]{0,3})?))?\s*")


def encoding_of(content_encoding: str | None) -> Encoding | None:
    """What a request's body is packed in. Raises `UnknownEncoding`."""
    name = (content_encoding or "identity").strip().lower()
    if name == "identity":
        return None
    for known in ENCODINGS:
        if name in (known, f"x-{known}"):
            return known
    raise UnknownEncoding(
        f"Content-Encoding is {name[:40]!r}; send one of gzip, deflate (zlib) and zstd, or none"
    )


def decompress(content: bytes, encoding: Encoding, bytes_max: int) -> bytes:
    """One whole stream and nothing behind it.

    Raises `TooLarge` before more than `bytes_max` and a window are in memory, and `Malformed`.
    """
    try:
        unpacked, whole = (
            _unzstd(content, bytes_max)
            if encoding == "zstd"
            else _inflate(content, _GZIP if encoding == "gzip" else _ZLIB, bytes_max)
        )
    except (zlib.error, zstandard.ZstdError) as error:
        raise Malformed(f"the body is no {encoding}: {str(error)[:200]}") from error
    if len(unpacked) > bytes_max:
        raise TooLarge(f"the body is over {bytes_max} bytes when unpacked; send fewer rows")
    if not whole:
        raise Malformed(f"the body's {encoding} is cut short, or bytes follow its end")
    return unpacked


def compress(content: bytes, encoding: Encoding) -> bytes | None:
    """None where it does not pay."""
    match encoding:
        case "zstd":
            packed = zstandard.compress(content, 1)
        case "gzip":
            packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
            packed = packer.compress(content) + packer.flush()
        case "deflate":
            packed = zlib.compress(content, 1)
    return packed if len(packed) <= len(content) * (1 - _GAIN_MIN) else None


def accepted(accept_encoding: str | None) -> Encoding | None:
    """The best that the client takes, None for the plain body (RFC 9110, section 12.5.3)."""
    if not accept_encoding:
        return None
    weights = dict[str, float]()
    for part in accept_encoding[:1000].split(","):
        found = _WEIGHTED.fullmatch(part)
        if found is not None:
            weights[found[1].lower()] = 1.0 if found[2] is None else float(found[2])
    rest = weights.get("*", 0.0)
    best = max(ENCODINGS, key=lambda name: weights.get(name, rest))  # the first of equals: zstd
    return best if weights.get(best, rest) > 0 else None


def _inflate(content: bytes, window: int, bytes_max: int) -> tuple[bytes, bool]:
    unpacker = zlib.decompressobj(window)
    unpacked = unpacker.decompress(content, bytes_max + 1)
    return unpacked, unpacker.eof and not unpacker.unused_data


def _unzstd(content: bytes, bytes_max: int) -> tuple[bytes, bool]:
    """Twice: only a reader can be bounded, and only an unpacker says where the frame ended."""
    engine = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX)
    with engine.stream_reader(content) as reader:
        unpacked = reader.read(bytes_max + 1)
    if len(unpacked) > bytes_max:
        return unpacked, False
    unpacker = engine.decompressobj()
    return unpacker.decompress(content), unpacker.eof and not unpacker.unused_data
