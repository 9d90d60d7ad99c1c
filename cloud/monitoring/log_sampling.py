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


class Allowance:
    """At most `per_s` a second, with a second's worth at once (a token bucket)."""

    __slots__ = ("_at", "_left", "_most", "_per_s")

    def __init__(self, per_s: float, now: float) -> None:
        self._per_s, self._at = per_s, now
        self._most = max(1.0, per_s) if per_s else 0.0
        self._left = self._most

    def take(self, now: float) -> bool:
        self._left = min(self._most, self._left + max(0.0, now - self._at) * self._per_s)
        self._at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
