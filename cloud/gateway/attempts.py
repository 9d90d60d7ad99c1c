"""Failed attempts to get in, by where they come from: a token bucket each. Pure.

A forged token costs about 0.2 ms to refuse, so who fails often is refused before it is looked at.
Who was let in before is let in all the same: that takes a look-up only.
"""

import ipaddress
from dataclasses import dataclass, field
from typing import Final

_EVERYBODY: Final = "*"


@dataclass(slots=True)
class _Bucket:
    failures: float = 0.0
    at: float = field(default=0.0)


class Attempts:
    """Remembers up to `addresses_max` addresses; the one that has not failed for longest goes."""

    def __init__(self, *, burst: int, per_s: float, per_s_total: float, addresses_max: int) -> None:
        self._burst, self._per_s, self._per_s_total = burst, per_s, per_s_total
        self._addresses_max = addresses_max
        self._buckets: dict[str, _Bucket] = {}
        self._total = _Bucket()

    def __len__(self) -> int:
        return len(self._buckets)

    def blocked_s(self, address: str | None, now: float) -> float:
        """Say for how long this address is to be refused unheard; 0: hear it."""
        own = self._buckets.get(_network(address))
        return max(
            0.0 if own is None else _full_for_s(own, self._burst, self._per_s, now),
            _full_for_s(self._total, max(1.0, self._per_s_total), self._per_s_total, now),
        )

    def failed(self, address: str | None, now: float) -> None:
        """Count an attempt that failed."""
        name = _network(address)
        own = self._buckets.pop(name, None)
        if own is None:
            while len(self._buckets) >= self._addresses_max:
                del self._buckets[next(iter(self._buckets))]
            own = _Bucket(at=now)
        self._buckets[name] = own  # to the end: failed last
        _add(own, self._per_s, now)
        _add(self._total, self._per_s_total, now)


def _left(bucket: _Bucket, per_s: float, now: float) -> float:
    return max(0.0, bucket.failures - max(0.0, now - bucket.at) * per_s)


def _full_for_s(bucket: _Bucket, burst: float, per_s: float, now: float) -> float:
    return max(0.0, (_left(bucket, per_s, now) + 1 - burst) / per_s)


def _add(bucket: _Bucket, per_s: float, now: float) -> None:
    bucket.failures = _left(bucket, per_s, now) + 1
    bucket.at = max(bucket.at, now)


def _network(address: str | None) -> str:
    """Give what one party holds: an IPv4 address, or the /64 that an IPv6 one is in."""
    if address is None:
        return _EVERYBODY
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(found) >> 64 << 64, 64)))
