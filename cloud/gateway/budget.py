"""What one caller may spend: permits of each of his limits, and work in hand. Pure.

A hit of the `limits` library takes several microseconds, and a network round trip where workers
share a storage, so permits are taken in blocks and counted down here. They end with their window.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from limits import RateLimitItem

from cloud.gateway.permits import Permits
from cloud.gateway.rates import said
from cloud.gateway.refusals import RateLimited
from shared.errors import TooLarge

_LOOKED_AT: Final = 16


@dataclass(frozen=True, slots=True)
class CallerLimits:
    """What a caller may do at most."""

    rates: tuple[RateLimitItem, ...]
    body_bytes_max: int
    in_hand_max: int


class _Meter:
    """The permits that are here of one limit."""

    __slots__ = ("ends", "is_sold_out", "item", "left")

    def __init__(self, item: RateLimitItem) -> None:
        self.item = item
        self.left = 0
        self.ends = -math.inf
        self.is_sold_out = False


class Budget:
    """One caller's, shared by all his keys' and tokens' copies in this process."""

    __slots__ = ("_ends", "_had", "_left", "_meters", "_permits", "in_hand", "limits")

    def __init__(self, limits: CallerLimits, permits: Permits) -> None:
        self.limits = limits
        self.in_hand = 0
        self._permits = permits
        self._meters = tuple(map(_Meter, limits.rates))
        # `_left` is the least that a meter has left, `_had` what it was when that was last worked
        # out: their difference is spent and stands in no meter yet
        self._left = self._had = 0 if self._meters else 1 << 62
        self._ends = -math.inf if self._meters else math.inf

    def spend(self, now: float, cost: int = 1) -> None:
        """Spend `cost` permits of every limit at `now`, or none at all.

        Raises:
            RateLimited: a limit has not that many left; `retry_after_s` says when its window ends.
            TooLarge: it never has that many.

        """
        if cost <= self._left and now < self._ends:
            self._left -= cost
            return
        self._renew(now, cost)

    def unspend(self, cost: int = 1) -> None:
        """Give back what was just spent, in the same turn of the event loop."""
        self._left += cost

    def begin(self) -> None:
        """Take a place among the requests in hand; `end` gives it back.

        Raises:
            RateLimited: all are taken.

        """
        if self.in_hand >= self.limits.in_hand_max:
            raise RateLimited(
                "in_hand", f"{self.in_hand} requests of yours are in hand, as many as may be at "
                "once; await an answer before you send more",
            )  # fmt: skip
        self.in_hand += 1

    def end(self) -> None:
        assert self.in_hand > 0, "more ends than begins"
        self.in_hand -= 1

    def is_idle(self, now: float) -> bool:
        """Nothing is in hand and no window is open: a new budget would be the same."""
        return not self.in_hand and all(meter.ends <= now for meter in self._meters)

    def _renew(self, now: float, cost: int) -> None:
        spent = self._had - self._left
        for meter in self._meters:
            meter.left -= spent
        self._left = self._had = 0
        short: _Meter | None = None
        for meter in self._meters:
            if cost > meter.item.amount:
                raise TooLarge(
                    f"this costs {cost} of a limit of {said(meter.item)}: send fewer rows at once"
                )
            if now >= meter.ends:
                meter.left, meter.is_sold_out = 0, False
            if meter.left < cost and not meter.is_sold_out:
                self._refill(meter, cost, now)
            if meter.left < cost and (short is None or meter.ends > short.ends):
                short = meter
        self._left = min((meter.left for meter in self._meters), default=1 << 62)
        self._had = self._left
        self._ends = min((meter.ends for meter in self._meters), default=math.inf)
        if short is not None:
            wait_s = max(0.0, short.ends - now)
            raise RateLimited(
                "rate",
                f"over your limit of {said(short.item)}; come again in {wait_s:.1f} s",
                wait_s,
            )
        self._left -= cost

    def _refill(self, meter: _Meter, cost: int, now: float) -> None:
        wanted = max(self._permits.block(meter.item), cost - meter.left)
        taken = self._permits.take(meter.item, wanted, now)
        meter.left += taken.permits
        meter.ends = taken.ends
        # nobody gives permits back, so there is no use in asking again before the window ends
        meter.is_sold_out = taken.permits < wanted


class Budgets:
    """Callers' budgets by who they are; at most `callers_max`.

    When full, one with nothing open goes, else the one not looked up for longest: that caller's
    windows begin anew where they are counted in this process.
    """

    def __init__(self, permits: Callable[[str], Permits], callers_max: int) -> None:
        self._permits, self._callers_max = permits, callers_max
        self._budgets: dict[tuple[str, CallerLimits], Budget] = {}

    def __len__(self) -> int:
        return len(self._budgets)

    def of(self, identity: str, limits: CallerLimits, now: float) -> Budget:
        key = (identity, limits)
        found = self._budgets.pop(key, None)
        if found is None:
            while len(self._budgets) >= self._callers_max:
                del self._budgets[self._dispensable(now)]
            found = Budget(limits, self._permits(identity))
        self._budgets[key] = found  # to the end: looked up last
        return found

    def _dispensable(self, now: float) -> tuple[str, CallerLimits]:
        oldest = [key for key, _ in zip(self._budgets, range(_LOOKED_AT), strict=False)]
        return next((key for key in oldest if self._budgets[key].is_idle(now)), oldest[0])
