"""Which answers are logged. Pure."""

from zlib import crc32


class Sampling:
    """A share of the requests, by their ids; those without an id are counted off."""

    __slots__ = ("_below", "_share", "_since")

    def __init__(self, share: float) -> None:
        self._share, self._since = share, 0.0
        self._below = round(share * 2**32)

    def picks(self, request_id: str | bytes | None) -> bool:
        """The same for the same id, in every process and for every retry."""
        if request_id is None:
            self._since += self._share
            if self._since < 1.0:
                return False
            self._since -= 1.0
            return True
        content = request_id if isinstance(request_id, bytes) else _encoded(request_id)
        return crc32(content) < self._below


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a character; to name a handler costs all others 0.2 us
        return text.encode("utf-8", "surrogatepass")
