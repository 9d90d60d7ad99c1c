"""When to try again. Pure."""

from typing import Protocol


class Rng(Protocol):
    """`random.Random`."""

    def uniform(self, a: float, b: float, /) -> float:
        """Between the two."""


def pause_s(attempt: int, s_min: float, s_max: float, rng: Rng, at_least_s: float = 0.0) -> float:
    """Before the try that follows failure number `attempt` (from 1): full jitter below a doubling
    bound (Brooker 2015, "Exponential Backoff And Jitter"). `at_least_s`: as the other end asked;
    it counts up to `s_max`.
    """
    bound = min(s_max, s_min * 2.0 ** min(attempt - 1, 60))
    return min(at_least_s, s_max) + rng.uniform(0, bound)
