"""Which devices go first: the same order for everybody who knows the seed. Pure.

Sorting by a hash of seed and device id (as Kubernetes and LaunchDarkly place buckets) is a random
permutation that needs no memory, so a device never changes its cohort.
"""

import hashlib
import math
from collections.abc import Iterable, Sequence


def in_order(devices: Iterable[str], seed: str) -> list[str]:
    """By SHA-256 of the seed, a zero byte and the device id; without repetitions."""
    return sorted(set(devices), key=lambda device: (_place(seed, device), device))


def _place(seed: str, device: str) -> bytes:
    return hashlib.sha256(f"{seed}\0{device}".encode()).digest()


def cuts(devices: int, canary: float, waves: Sequence[float]) -> list[int]:
    """How many devices are in after the canary and after each wave; rises strictly, ends with all.

    The canary has at least one device. Waves that would add nobody are left out.
    """
    counts = [_share(devices, canary)]
    for share in waves:
        count = _share(devices, share)
        if count > counts[-1]:
            counts.append(count)
    return counts


def _share(devices: int, share: float) -> int:
    # the product of a share and a count is off by 1e-12 where it should be whole
    return min(devices, max(1, math.ceil(share * devices - 1e-9)))


def exponential(canary: float, factor: float = 2.0) -> tuple[float, ...]:
    """Cumulative shares after the canary, each `factor` times the one before; the last is 1.

    At most 20, as a specification takes: the last step is longer where that is not enough.
    """
    if not 0 < canary <= 1 or factor <= 1:
        raise ValueError("a canary is over 0 and at most 1, a factor over 1")
    shares: list[float] = []
    share = canary * factor
    while share < 1 and len(shares) < 19:
        shares.append(round(share, 6))
        share *= factor
    return (*shares, 1.0)
