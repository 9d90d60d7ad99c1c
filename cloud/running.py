"""A command's process: from settings that are right to an exit code."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from shared.errors import HybridgeError

log = logging.getLogger(__name__)

EXIT_FORCED = 128 + signal.SIGTERM


class Stoppable(Protocol):
    """What runs until it is told to end."""

    @property
    def stopping(self) -> bool: ...

    def stop(self) -> None: ...

    def read_again(self) -> None: ...


def run(main: Callable[[], Coroutine[Any, Any, bool]], not_started: str) -> int:
    """0 when `main` gives True, 1 otherwise; `not_started` is the event for what cannot start."""
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return 0 if runner.run(main()) else 1
    except HybridgeError as error:
        log.error(not_started, extra={"why": str(error)})  # noqa: TRY400  words suffice
        return 1
    except BaseExceptionGroup as group:
        ours, bugs = group.split(HybridgeError)
        for leaf in _leaves(ours):
            log.error("part_died", extra={"why": str(leaf)})  # noqa: TRY400  words suffice
        if bugs is not None:
            log.exception("part_died", exc_info=bugs)
        return 1


def on_signals(service: Stoppable) -> None:
    """SIGINT and SIGTERM stop it, the second one at once; SIGHUP makes it read its files again."""

    def on_end() -> None:
        if service.stopping:
            os._exit(EXIT_FORCED)  # asked twice: now
        service.stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_end)
    loop.add_signal_handler(signal.SIGHUP, service.read_again)


def _leaves(group: BaseExceptionGroup[BaseException] | None) -> list[BaseException]:
    if group is None:
        return []
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415
    except ImportError:
        return None
    return uvloop.new_event_loop
