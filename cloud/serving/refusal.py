"""What a queue says to a job that it does not take. Pure."""

from math import ceil

from shared.errors import DeadlineMissed, Overloaded


class QueueFull(Overloaded):
    """Too many wait, or for too long; `retry_after_s`: until those that wait now are answered."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s: float = retry_after_s


def too_late(alone_s: float, left_s: float, wait_s: float) -> QueueFull | DeadlineMissed:
    """For a job that would take `alone_s` by itself, has `left_s`, and would wait `wait_s`."""
    if alone_s > left_s:
        return DeadlineMissed(
            f"{max(left_s, 0.0) * 1e3:.1f} ms are left of its time; the model needs "
            f"{alone_s * 1e3:.1f}: give it more, or fewer rows"
        )
    # whole milliseconds: refusals are told apart, and written, by their text (`api/fast_lane`)
    wait_ms = ceil(wait_s * 1e3)
    return QueueFull(f"the wait would be {wait_ms} ms; send it again", wait_ms / 1e3)
