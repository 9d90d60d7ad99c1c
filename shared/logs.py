"""Standard logging as one JSON object a line: an event name and its fields.

`log.warning("link_lost", extra={"broker": "mqtt://..."})` becomes
`{"at": "2026-01-31T08:00:00.123Z", "level": "warning", "event": "link_lost", "logger": ..., ...}`.
"""

import json
import logging
import sys
import time
from collections import deque
from typing import TextIO

_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "at": f"{at}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
        }
        line.update((key, value) for key, value in vars(record).items() if key not in _PLAIN)
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        text = json.dumps(line, default=str, ensure_ascii=False)
        return text.encode("utf-8", "backslashreplace").decode()  # half a character is no UTF-8


def set_up(level: str, stream: TextIO | None = None) -> None:
    """Send everything from `level` up to `stream` (standard error), and nothing anywhere else."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


class NewestLines(logging.Handler):
    """Keeps the newest lines in memory, as they are logged, beside wherever else they go."""

    def __init__(self, lines_max: int, chars_max: int) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self._lines: deque[str] = deque(maxlen=lines_max)
        self._chars_max = chars_max

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(self.format(record)[: self._chars_max])
        except Exception:  # noqa: BLE001  as in the standard library's handlers
            self.handleError(record)

    def newest(self, count: int) -> tuple[str, ...]:
        """The newest last."""
        return tuple(self._lines)[-count:] if count > 0 else ()


class OncePer:
    """Lets one line of each kind through a period, and says how many it held back since."""

    def __init__(self, period_s: float, kinds_max: int = 100) -> None:
        self._period_s, self._kinds_max = period_s, kinds_max
        self._kinds: dict[str, tuple[float, int]] = {}

    def admits(self, kind: str, now: float) -> int | None:
        """None while `kind` is to keep silent, else the number held back since it last spoke.

        Kinds beyond `kinds_max` share one place: what an attacker can name must not fill memory.
        """
        if kind not in self._kinds and len(self._kinds) >= self._kinds_max:
            kind = "other"
        spoke, held = self._kinds.get(kind, (None, 0))
        if spoke is not None and now - spoke < self._period_s:
            self._kinds[kind] = (spoke, held + 1)
            return None
        self._kinds[kind] = (now, 0)
        return held
