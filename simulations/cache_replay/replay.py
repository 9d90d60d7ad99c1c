"""A stream of requests through a real policy."""

import time
from dataclasses import dataclass

from cloud.serving.caches.policy import Bounds, Policy, policy_of
from cloud.serving.caches.settings import PolicyName
from simulations.cache_replay.traces import Trace


@dataclass(frozen=True, slots=True)
class Replayed:
    hit_share: float
    access_us: float  # mean, a look-up and on a miss a put


def replay(name: PolicyName, trace: Trace, places: int) -> Replayed:
    """As the result cache does it: look up, and keep what had to be computed."""
    policy: Policy[int, int] = policy_of(name, Bounds(places, places), lambda _: 1)
    hits = 0
    began = time.perf_counter()
    for number in trace:
        if policy.get(number) is None:
            policy.put(number, number)
        else:
            hits += 1
    took_s = time.perf_counter() - began
    return Replayed(hits / len(trace), took_s / len(trace) * 1e6)
