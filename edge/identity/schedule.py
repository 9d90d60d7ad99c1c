"""When a device asks for its next certificate. Pure.

Its clock may be wrong, so this only decides when to ask; whether the certificate is still good, the
region decides. Times are Unix seconds by the device's clock, ages seconds that do not jump.
"""

from dataclasses import dataclass
from typing import Final

RENEW_FROM: Final = 2 / 3
"""Of the life: a third is left for what goes wrong."""
JITTER: Final = 0.1
"""Of the life, at most, after that: devices enrolled on one day do not come back in one hour."""
LOOK_S_MAX: Final = 86_400.0
"""Until the clock is looked at again: it may have been set, or the device asleep."""


@dataclass(frozen=True, slots=True)
class Validity:
    not_before: float
    not_after: float

    @property
    def life_s(self) -> float:
        return self.not_after - self.not_before


def wait_s(validity: Validity, now: float, jitter: float, held_s: float | None) -> float:
    """Seconds until the next attempt; 0: now.

    `jitter` is 0..1, the same for one certificate. `held_s`: seconds since this process got it;
    None: it had it when it started. A clock that shows a time before the certificate began is
    wrong; then what is known is `held_s`, and a process that knows nothing asks once, at its start.
    """
    due_s = validity.life_s * (RENEW_FROM + JITTER * jitter)
    if is_wrong(validity, now):
        left_s = 0.0 if held_s is None else due_s - held_s
    else:
        left_s = validity.not_before + due_s - now
        if held_s is not None:
            # a clock that runs ahead: the region's answer was new, so it is not asked at once again
            left_s = max(left_s, min(due_s, LOOK_S_MAX) - held_s)
    return min(max(left_s, 0.0), LOOK_S_MAX)


def is_wrong(validity: Validity, now: float) -> bool:
    """Whether the clock shows a time that has passed: the region made the certificate after it."""
    return now < validity.not_before
