"""When to try again. Pure."""

from typing import Protocol

_DOUBLINGS_MAX = 30


class Jitter(Protocol):
    """What is asked of `random.Random`."""

    def uniform(self, a: float, b: float) -> float: ...


def pause_s(failures: int, s_min: float, s_max: float, rng: Jitter, asked_s: float = 0.0) -> float:
    """Seconds to wait after failure number `failures` (from 1): full jitter below a doubling bound
    (Brooker 2015, "Exponential Backoff And Jitter"), on top of what the other end asked for
    (Retry-After), which counts up to `s_max`.
    """
    bound = min(s_max, s_min * 2.0 ** min(failures - 1, _DOUBLINGS_MAX))
    return min(max(asked_s, 0.0), s_max) + rng.uniform(0, bound)
