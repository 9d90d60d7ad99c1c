"""When to ask an issuer for its keys. Pure."""

import math
import re
from dataclasses import dataclass
from typing import Final

_MAX_AGE: Final = re.compile(r"(?:^|[\s,])max-age\s*=\s*\"?([0-9]{1,10})", re.ASCII | re.IGNORECASE)
_AHEAD: Final = 0.8
"""Of what the issuer says its answer is good for: the new one is here before the old one ends."""
_DOUBLINGS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class RefreshRules:
    """In seconds. `pause_s_min` lies between any two requests, whoever asks for them."""

    refresh_s: float
    pause_s_min: float
    stale_s_max: float


@dataclass(frozen=True, slots=True)
class Refreshing:
    """What is known of an issuer, by a monotonic clock."""

    rules: RefreshRules
    asked_at: float | None = None
    fetched_at: float | None = None
    failures: int = 0
    good_for_s: float | None = None

    def asking(self, now: float) -> "Refreshing":
        return Refreshing(self.rules, now, self.fetched_at, self.failures, self.good_for_s)

    def fetched(self, now: float, cache_control: str) -> "Refreshing":
        return Refreshing(self.rules, self.asked_at, now, 0, max_age_s(cache_control))

    def failed(self) -> "Refreshing":
        return Refreshing(
            self.rules, self.asked_at, self.fetched_at, self.failures + 1, self.good_for_s
        )

    def may_ask(self, now: float) -> bool:
        return self.asked_at is None or now >= self.asked_at + self.rules.pause_s_min

    def pause_s(self) -> float:
        """How long until the next request, if nobody needs one before."""
        rules = self.rules
        if self.failures:
            wait = math.ldexp(rules.pause_s_min, min(self.failures - 1, _DOUBLINGS_MAX))
        elif self.good_for_s is not None:
            wait = self.good_for_s * _AHEAD
        else:
            wait = rules.refresh_s
        return max(rules.pause_s_min, min(wait, rules.refresh_s))

    def are_good(self, now: float) -> bool:
        """Whether the last set may still be used."""
        return self.fetched_at is not None and now < self.fetched_at + self.rules.stale_s_max


def max_age_s(cache_control: str) -> float | None:
    """Give the `max-age` of a Cache-Control header (RFC 9111, 5.2.2.1)."""
    found = _MAX_AGE.search(cache_control)
    return None if found is None else float(found[1])
