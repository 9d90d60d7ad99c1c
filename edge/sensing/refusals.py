"""Samples that a source could not use: counted by reason, and logged without flooding the log."""

import logging
import time
from collections.abc import Callable

from edge.telemetry.counters import Counters
from shared.errors import TooLarge
from shared.logs import OncePer

log = logging.getLogger(__name__)

LOG_PERIOD_S = 60.0  # a folder full of the same fault is one line a minute and one count a file


class Refusals:
    """Counter `refused_<reason>`, reason being malformed, too_large or unreadable."""

    def __init__(
        self, source: str, counters: Counters, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._source, self._counters, self._clock = source, counters, clock
        self._lines = OncePer(LOG_PERIOD_S)

    def add(self, position: str, error: Exception) -> None:
        reason = (
            "unreadable" if isinstance(error, OSError)
            else "too_large" if isinstance(error, TooLarge)
            else "malformed"
        )  # fmt: skip
        self._counters.add(f"refused_{reason}")
        held_back = self._lines.admits(reason, self._clock())
        if held_back is not None:
            log.warning(
                "sample_refused",
                extra={
                    "source": self._source,
                    "position": position,
                    "reason": reason,
                    "why": str(error),
                    "more_since_last_line": held_back,
                },
            )
