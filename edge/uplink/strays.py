"""What should not have come: counted, and one line of each kind in a while."""

import logging
from collections.abc import Callable

from edge.telemetry.counters import Counters
from shared.logs import OncePer

log = logging.getLogger(__name__)

_LOG_PERIOD_S = 60.0


class Strays:
    def __init__(self, counters: Counters, now: Callable[[], float]) -> None:
        self._counters, self._now = counters, now
        self._once = OncePer(_LOG_PERIOD_S)

    def count(self, kind: str, why: str) -> None:
        self._counters.add(kind)
        if (held_back := self._once.admits(kind, self._now())) is not None:
            log.warning(kind, extra={"why": why[:500], "more_since_last": held_back})
