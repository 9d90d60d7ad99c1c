"""Where a caller's permits come from: fixed windows of the `limits` library. Pure.

A window begins with its first permit taken and lasts as long as the limit says. Within one never more
than the limit is given out; over the edge of two windows up to twice that may meet. In exchange a
window is one number whatever the limit, every storage that `limits` knows has them, and whoever
stays under the limit in every interval of that length is never refused.
"""

from typing import NamedTuple, Protocol

from limits import RateLimitItem
from limits.storage import Storage
from limits.strategies import FixedWindowRateLimiter


class Taken(NamedTuple):
    """Permits that may be spent until `ends`, in the clock of the `now` that was given."""

    permits: int
    ends: float


class Permits(Protocol):
    """One caller's, of all his limits."""

    def block(self, item: RateLimitItem) -> int:
        """Say how many permits are best taken at a time, 1 or more."""
        ...

    def take(self, item: RateLimitItem, wanted: int, now: float) -> Taken:
        """Take up to `wanted` of what this window has left; fewer means that it has no more."""
        ...


class Windows(Storage):
    """`limits`' storage seam over a dict and a given clock.

    Its own `MemoryStorage` reads the wall clock, which may be set, and starts a thread every 10 ms
    under load. Set `now` before each call.
    """

    STORAGE_SCHEME = None  # not to be had by a URI

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._windows: dict[str, tuple[float, int]] = {}

    @property
    def base_exceptions(self) -> type[Exception]:
        return ValueError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        ends, count = self._windows.get(key, (self.now, 0))
        if self.now >= ends:
            ends, count = self.now + expiry, 0
        self._windows[key] = (ends, count + amount)
        return count + amount

    def get(self, key: str) -> int:
        ends, count = self._windows.get(key, (self.now, 0))
        return count if self.now < ends else 0

    def get_expiry(self, key: str) -> float:
        return max(self.now, self._windows.get(key, (self.now, 0))[0])

    def check(self) -> bool:
        return True

    def reset(self) -> int:
        count = len(self._windows)
        self._windows.clear()
        return count

    def clear(self, key: str) -> None:
        self._windows.pop(key, None)


class LocalPermits:
    """Counted in this process only. Nobody else takes from them, so a block is all there is."""

    def __init__(self) -> None:
        self._windows = Windows()
        self._limiter = FixedWindowRateLimiter(self._windows)

    def block(self, item: RateLimitItem) -> int:
        return item.amount

    def take(self, item: RateLimitItem, wanted: int, now: float) -> Taken:
        self._windows.now = now
        return take_up_to(self._limiter, item, "", wanted)


def take_up_to(
    limiter: FixedWindowRateLimiter, item: RateLimitItem, key: str, wanted: int
) -> Taken:
    """Take what is left, up to `wanted`; `ends` is in the storage's clock.

    A hit that goes over the limit counts all the same and buys nothing, so what is left is read
    first. Where several processes share the storage one may still come between: then this one
    gets nothing, and what it counted is lost until the window ends.
    """
    count = min(wanted, limiter.get_window_stats(item, key).remaining)
    if count > 0 and not limiter.hit(item, key, cost=count):
        count = 0
    return Taken(count, limiter.get_window_stats(item, key).reset_time)
