"""What a job's process may do: whether it hangs, floods, or takes too long. Pure.

Times are seconds of a clock that only goes forward.
"""

from dataclasses import dataclass

from pydantic import ValidationError

from cloud.training.child_messages import MESSAGES, Message
from shared.config import in_words
from shared.token_bucket import TokenBucket

_BURST_S = 10.0


class Astray(Exception):
    """The process does what none should; it is ended, and that costs an attempt."""


@dataclass(frozen=True, slots=True)
class Bounds:
    start_s: float
    """Until its first word."""
    silence_s: float
    """Between two."""
    work_s: float
    """Until the job's `max_duration_s` is spent."""
    lines_per_s_max: int


class Watch:
    """Of one process, from its start."""

    def __init__(self, bounds: Bounds, now: float) -> None:
        self._bounds, self._began, self._heard = bounds, now, now
        self._has_spoken = False
        burst = bounds.lines_per_s_max * _BURST_S
        self._lines = TokenBucket(bounds.lines_per_s_max, burst)

    def read(self, line: bytes, now: float) -> Message:
        """One line. Raises `Astray`."""
        if not self.may_say(now):
            raise Astray(self.why_flooded())
        try:
            message = MESSAGES.validate_json(line)
        except ValidationError as error:
            raise Astray(
                f"it wrote a line that is no message, {line[:60]!r}: {in_words(error)[:200]}"
            ) from error
        self._heard, self._has_spoken = now, True
        return message

    def may_say(self, now: float) -> bool:
        """One more line, on whichever of its pipes."""
        return self._lines.take(now)

    def why_flooded(self) -> str:
        return (
            f"it said more than {self._bounds.lines_per_s_max} lines a second for {_BURST_S:.0f} s"
        )

    def waited(self, waited_s: float) -> None:
        """It could have run for that long and got no core: it neither worked nor was it silent."""
        self._began += waited_s
        self._heard += waited_s

    def silent_at(self) -> float:
        """When it has been silent for too long."""
        return self._heard + (self._bounds.silence_s if self._has_spoken else self._bounds.start_s)

    def spent_at(self) -> float:
        """When it has worked for as long as it may."""
        return self._began + self._bounds.work_s

    def look_at(self, now: float) -> float:
        """When to look next: once it has spoken, it may be silent for another time than before."""
        return min(self.silent_at(), self.spent_at(), now + self._bounds.silence_s)

    def why_silent(self) -> str:
        if self._has_spoken:
            return f"it said nothing for {self._bounds.silence_s:g} s (worker.silence_s)"
        return f"it said nothing for {self._bounds.start_s:g} s after its start (worker.start_s)"
