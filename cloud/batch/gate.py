"""Holds an offline batch's next run back: its hours, the online tier's load, a stop. The shell."""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from cloud.batch.governor import Pace, Rules, pace, rest_s
from cloud.batch.hours import Hours
from cloud.batch.online_load import OnlineLoad
from shared.errors import Unavailable

log = logging.getLogger(__name__)

ASK_S = 0.25
"""Between two looks at the online tier, 1 ms of its time each: with a batch's own time, how late
the batch stops."""
_ASK_AGAIN_S = 2.0  # when it did not answer
_REST_S_MIN = 0.002  # shorter rests are saved up: a timer costs as much as a small batch
_REST_S_MAX = 1.0  # of what is saved up, so that a slow spell is not paid for minutes later
_WAIT_S_MIN = 0.001  # a wait that rounding made too short to reach its time would never end
_HOURS_S = 30.0  # between two looks at the wall clock, which may be set


class OutsideHours(Unavailable):
    """The window is not open, and nobody wants to wait for it."""


class Load(Protocol):
    """The part of `LoadReader` that is needed here."""

    @property
    def why_not(self) -> str: ...

    async def read(self) -> OnlineLoad | None: ...


class Gate:
    """Call it before each batch. `state` says in words what it is at, for people."""

    def __init__(
        self,
        *,
        stop: asyncio.Event,
        today: Callable[[], datetime],
        now: Callable[[], float],
        hours: Hours | None = None,
        waits: bool = True,
        load: Load | None = None,
        rules: Rules | None = None,
    ) -> None:
        """`today` knows its zone, `now` is monotonic; without `load` it never throttles."""
        self._stop, self._today, self._now = stop, today, now
        self._hours, self._waits = hours, waits
        self._load, self._rules = load, rules or Rules()
        self._pace = Pace(0.0, "") if load else Pace(1.0, "nothing to give way to was named")
        self._asked_at: float | None = None
        self._released_at: float | None = None
        self._owed_s = 0.0
        self._answered: bool | None = None
        self.state = "starting"

    @property
    def share(self) -> float:
        return self._pace.share

    async def __call__(self) -> bool:
        """Whether the next batch may run; False once stopped.

        Raises `OutsideHours` when the window is closed and it was not to wait.
        """
        if self._released_at is not None and self._pace.share > 0:
            ran_s = self._now() - self._released_at
            self._owed_s = min(self._owed_s + rest_s(self._pace.share, ran_s), _REST_S_MAX)
        self._released_at = None
        if not await self.hours_open():
            return False
        if self._load is not None and not await self._has_share(self._load):
            return False
        self.state = "running"
        self._released_at = self._now()
        return True

    async def hours_open(self) -> bool:
        """Wait for the window; False once stopped. Raises `OutsideHours`."""
        while not self._stop.is_set():
            today = self._today()
            if self._hours is None or (opening := self._hours.opening(today)) == today:
                return True
            when = f"{opening.astimezone(self._hours.zone):%Y-%m-%d %H:%M %Z}"
            if not self._waits:
                raise OutsideHours(f"outside of its hours; they begin {when}")
            self.state = f"waits until {when}"
            await self._stopped_within(
                min(_HOURS_S, max(_REST_S_MIN, (opening - today).total_seconds()))
            )
        return False

    async def _has_share(self, load: Load) -> bool:
        while not self._stop.is_set():
            now = self._now()
            every_s = _ASK_AGAIN_S if self._answered is False else ASK_S
            if self._asked_at is None or now - self._asked_at >= every_s:
                await self._ask(load)
                continue
            wait_s = self._asked_at + every_s - now
            if self._pace.share > 0:
                if self._owed_s < _REST_S_MIN:
                    return True
                wait_s = min(wait_s, self._owed_s)
            else:
                self.state = f"paused: {self._pace.why}"
            await self._stopped_within(wait_s)
            self._owed_s = max(0.0, self._owed_s - (self._now() - now))
        return False

    async def _ask(self, load: Load) -> None:
        began = self._now()
        elapsed_s = 0.0 if self._asked_at is None else began - self._asked_at
        report = await load.read()
        self._pace = pace(self._pace, report, elapsed_s, self._rules)
        self._asked_at = self._now()
        answers = report is not None
        if answers is not self._answered:  # said once when lost, once when back
            if answers and self._answered is False:
                log.info("online_tier_back")
            elif not answers:
                log.warning(
                    "online_tier_silent", extra={"why": load.why_not, "share": self._pace.share}
                )
            self._answered = answers

    async def _stopped_within(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, _WAIT_S_MIN)):
                await self._stop.wait()
        except TimeoutError:
            pass
