"""Bytes that are no HTTP: counted, one line a minute, never a trace each.

aiohttp answers them with 400 before any handler or middleware of ours runs, or reads what is left of
a broken body after them, and logs most with a trace each: whoever sends garbage could fill a disk.
"""

import logging
import time
from collections.abc import Callable

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from shared.logs import OncePer

_LOG_PERIOD_S = 60.0


def quiet_logger(on_unreadable: Callable[[], None]) -> logging.Logger:
    """The logger to give to `web.AppRunner`; of this server alone, so it stands in no registry."""
    logger = logging.Logger("aiohttp.server")  # noqa: LOG001  filters in the registry would pile up
    logger.parent = logging.getLogger()
    logger.setLevel(logging.DEBUG)  # where aiohttp puts some of it; the filter decides
    logger.addFilter(_Quiet(on_unreadable))
    return logger


class _Quiet(logging.Filter):
    def __init__(self, on_unreadable: Callable[[], None]) -> None:
        super().__init__()
        self._on_unreadable = on_unreadable
        self._once = OncePer(_LOG_PERIOD_S)

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError | web.RequestPayloadError):
            return logging.getLogger().isEnabledFor(record.levelno)
        self._on_unreadable()
        held_back = self._once.admits("unreadable", time.monotonic())
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args, record.exc_info = "http_unreadable", (), None
        vars(record)["why"] = " ".join(str(error).split())[:200]
        vars(record)["more_since_last"] = held_back
        return held_back is not None
