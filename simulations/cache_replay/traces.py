"""Streams of requests: which input is asked for, one number each. Pure, the same for a seed."""

from collections.abc import Mapping

import numpy as np

Trace = list[int]

POPULATION = 20_000
REQUESTS = 100_000
SCAN = 40_000  # inputs that are asked for once and never again


def traces(seed: int, places: int) -> Mapping[str, Trace]:
    """By name. `places` is the cache's size: the loop is made half as long again."""
    rng = np.random.default_rng(seed)
    popular = _zipf(rng, REQUESTS)
    return {
        "zipf": popular,
        "zipf with a scan": _with_scan(popular),
        "loop": [number % (places * 3 // 2) for number in range(REQUESTS)],
    }


def _zipf(rng: np.random.Generator, count: int, exponent: float = 0.9) -> Trace:
    """Shares fall with the rank's power, as they do for web objects (Breslau et al. 1999)."""
    share = 1.0 / np.arange(1, POPULATION + 1) ** exponent
    drawn = rng.choice(POPULATION, size=count, p=share / share.sum())
    return [int(number) for number in drawn]


def _with_scan(popular: Trace) -> Trace:
    """A nightly job goes once over everything while the others ask on: one request of each."""
    before = (len(popular) - SCAN) // 2
    scan = range(POPULATION, POPULATION + SCAN)
    asked = popular[before : before + SCAN]
    both = [number for pair in zip(asked, scan, strict=True) for number in pair]
    return popular[:before] + both + popular[before + SCAN :]
