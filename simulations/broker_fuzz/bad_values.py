"""Values that may stand nowhere, or not where they are put."""

from typing import Final

BAD_TEXTS: Final = (
    b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xc0\xaf", b"\xf4\x90\x80\x80",
    b"\xe2\x82", b"a\x80", b"\0", b"a\0b",
)  # fmt: skip
"""No UTF-8, surrogates, over-long forms, beyond U+10FFFF, cut short, U+0000 (1.5.4)."""
WILDCARDS: Final = ("#", "+", "a/#", "a/+/b", "a+", "#/a")
FORBIDDEN: Final[dict[str, tuple[bytes, ...]]] = {
    "CONNECT": (b"\x23\0\1", b"\x12\0\1x", b"\x24\1", b"\x1f\0\0"),
    "PUBLISH": (b"\x21\0\1", b"\x11\0\0\0\1", b"\x13\0\1", b"\x1f\0\0"),
    "SUBSCRIBE": (b"\x23\0\1", b"\x01\0", b"\x1f\0\0"),
    "UNSUBSCRIBE": (b"\x0b\1", b"\x01\0", b"\x1f\0\0"),
}
UNKNOWN: Final = (b"\x00", b"\x04\0", b"\x7f\0", b"\xff\x7f\0", b"\x29\1", b"\x2b\0")
