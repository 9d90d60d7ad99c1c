"""Permits counted where several workers share them: Redis, memcached or what else `limits` knows.

A call blocks the event loop for a network round trip, so there are about a hundred in a window and
each has a short time limit. While the storage is down, each worker counts by itself.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from limits import RateLimitItem
from limits.errors import ConfigurationError, StorageError
from limits.storage import Storage, storage_from_string
from limits.strategies import FixedWindowRateLimiter

from cloud.gateway.permits import LocalPermits, Taken, take_up_to
from shared.errors import Malformed

log = logging.getLogger(__name__)

BLOCKS_A_WINDOW: Final = 100
"""A worker that holds a block back holds back a hundredth of the limit."""
TIMEOUT_S: Final = 0.05
"""Of connecting and of a round trip: what a storage in the same room never needs."""
DOWN_S: Final = 5.0
"""How long a storage that failed is left alone."""
_OPTIONS: Final = {
    "redis": {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S},
    "valkey": {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S},
    "memcached": {"timeout": TIMEOUT_S, "connect_timeout": TIMEOUT_S},
}


def open_storage(uri: str) -> Storage:
    """Connect to the storage at `redis://`, `rediss://`, `valkey://` or `memcached://`.

    Raises:
        Malformed: another scheme, or its client library is not installed. Never shows the URI,
            which may hold a password.

    """
    scheme = uri.partition(":")[0].removesuffix("+sentinel").removesuffix("+cluster")
    options = _OPTIONS.get("redis" if scheme == "rediss" else scheme)
    if options is None:
        raise Malformed(
            f"gateway.storage: {scheme[:20]!r} is no storage of rate limits; use memory://, "
            "redis://, rediss://, valkey:// or memcached://"
        )
    try:
        storage = storage_from_string(uri, wrap_exceptions=True, **options)
        assert isinstance(storage, Storage)  # no `async+` scheme came this far
        return storage
    except ConfigurationError as error:
        package = {"memcached": "pymemcache", "valkey": "valkey"}.get(scheme, "redis")
        raise Malformed(f"gateway.storage: {scheme}:// needs `pip install {package}`") from error
    except StorageError as error:
        raise Malformed(
            f"gateway.storage: {scheme}://: {type(error.storage_error).__name__}"
        ) from error


class SharedStorage:
    """One storage of all callers, and whether it is up."""

    def __init__(
        self,
        storage: Storage,
        on_failure: Callable[[], None],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._limiter = FixedWindowRateLimiter(storage)
        self._on_failure, self._wall = on_failure, wall
        self._down_until: float | None = None

    def permits(self, identity: str) -> "SharedPermits":
        return SharedPermits(self, identity)

    def take(self, item: RateLimitItem, identity: str, wanted: int, now: float) -> Taken | None:
        """Take as `Permits.take` does; None while the storage is down."""
        if self._down_until is not None and now < self._down_until:
            return None
        try:
            taken = take_up_to(self._limiter, item, identity, wanted)
        except StorageError as error:
            if self._down_until is None:
                why = type(error.storage_error).__name__
                log.warning("rate_storage_lost", extra={"why": why})
            self._down_until = now + DOWN_S
            self._on_failure()
            return None
        if self._down_until is not None:
            self._down_until = None
            log.info("rate_storage_back")
        # its clock is the wall's; one that was set must not give a window without an end
        ends_in_s = min(max(0.0, taken.ends - self._wall()), item.get_expiry())
        return Taken(taken.permits, now + ends_in_s)


class SharedPermits:
    """One caller's permits in a shared storage."""

    def __init__(self, storage: SharedStorage, identity: str) -> None:
        self._storage, self._identity = storage, identity
        self._alone = LocalPermits()

    def block(self, item: RateLimitItem) -> int:
        return max(1, item.amount // BLOCKS_A_WINDOW)

    def take(self, item: RateLimitItem, wanted: int, now: float) -> Taken:
        taken = self._storage.take(item, self._identity, wanted, now)
        return self._alone.take(item, wanted, now) if taken is None else taken
