"""What goes wrong for a while and is tried again: said in the log, and not each time."""

import logging
from collections.abc import Callable
from typing import Final

from shared.errors import HybridgeError
from shared.logs import OncePer

_PERIOD_S: Final = 60.0


class Trouble:
    def __init__(self, log: logging.Logger, now: Callable[[], float]) -> None:
        """`now` gives Unix seconds."""
        self._log, self._now = log, now
        self._said = OncePer(_PERIOD_S)

    def say(self, event: str, error: HybridgeError, about: str = "") -> None:
        """At most once a minute of each event and what it is about."""
        what = f"{event} {about}".strip()
        if self._said.admits(what, self._now()) is not None:
            self._log.warning(event, extra={"what": what, "why": str(error)[:300]})
