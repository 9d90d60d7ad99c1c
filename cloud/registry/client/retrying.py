"""Whether and when a call is made again. Pure."""

from dataclasses import dataclass, replace

from cloud.registry.client.settings import ClientSettings
from shared.backoff import Jitter, pause_s
from shared.errors import DeadlineMissed, HybridgeError, Unavailable


@dataclass(frozen=True, slots=True)
class Tries:
    """Of one call; times in seconds of a monotonic clock."""

    give_up_at: float
    failed: int = 0

    @classmethod
    def starting(cls, now: float, settings: ClientSettings) -> "Tries":
        return cls(now + settings.patience_s)


def after_failure(
    tries: Tries,
    error: HybridgeError,
    *,
    may_have_been_done: bool,
    is_repeatable: bool,
    now: float,
    settings: ClientSettings,
    rng: Jitter,
) -> tuple[Tries, float] | None:
    """What follows a failed try: the pause in seconds before the next, or None: give up.

    A refusal stays one. What may have been done already is done again only where twice is as once.
    """
    if not isinstance(error, Unavailable):
        return None
    if not is_repeatable and (may_have_been_done or isinstance(error, DeadlineMissed)):
        return None
    failed = tries.failed + 1
    pause = pause_s(
        failed, settings.pause_s_min, settings.pause_s_max, rng, error.retry_after_s or 0.0
    )
    if now + pause > tries.give_up_at:
        return None
    return replace(tries, failed=failed), pause
