"""Drives rollouts: what happens goes in, by the tick; what they decide is stored, then published.

Kill it at any point: what was stored is published, what was not stored is decided again, from the
store and from what devices say next (reports are retained, counters cumulative).
"""

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Final

from cloud.fleet.devices import Fleet
from cloud.fleet.driving.commands import Verb
from cloud.fleet.driving.events import Pending
from cloud.fleet.driving.hand import Hand
from cloud.fleet.driving.step import Command, Turned
from cloud.fleet.metrics import FleetMetrics
from cloud.fleet.settings import Driving
from cloud.rollouts.documents import (
    ModelSubject,
    RolloutPlan,
    RolloutSpec,
    RolloutStatus,
    RolloutView,
)
from cloud.rollouts.events import Event
from cloud.rollouts.plan import plan
from shared.errors import HybridgeError, Overloaded, Unavailable
from shared.logs import OncePer

log = logging.getLogger(__name__)

COMMANDS_MAX: Final = 100
"""Operators' commands that wait for the next turn."""
_SETTLED_AT_ONCE: Final = 1000
_LOG_PERIOD_S: Final = 60.0


class Driver:
    """`run` until `drain`; everything else is called on its event loop."""

    def __init__(
        self,
        fleet: Fleet,
        settings: Driving,
        metrics: FleetMetrics,
        publish: Callable[[], None],
        wrote: Callable[[], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`publish` and `wrote` are called when there is desired state to publish, or a line in the
        log; `now` gives Unix seconds.
        """
        self._fleet, self._settings, self._metrics = fleet, settings, metrics
        self._publish, self._wrote, self._now = publish, wrote, now
        self._hand = Hand(fleet, metrics)
        self._pending = Pending(settings.events_max)
        self._commands: list[tuple[Command, asyncio.Future[RolloutView]]] = []
        self._wake, self._moved = asyncio.Event(), asyncio.Event()
        self._drained = False
        self._settles = True
        self._settled_at = 0.0
        self._tags: dict[str, str] = {}
        self._said = OncePer(_LOG_PERIOD_S)

    @property
    def count(self) -> int:
        """Rollouts that run or pause."""
        return self._hand.count

    def feed(self, events: Iterable[Event]) -> None:
        """What happened to devices; looked at with the next tick."""
        before = self._pending.dropped
        for event in events:
            self._pending.put(event)
        self._metrics.events_dropped.inc(self._pending.dropped - before)

    def happened(self, event: Event) -> None:
        """As `feed`, and looked at now."""
        self.feed([event])
        self._wake.set()

    def settle(self) -> None:
        """Something may have changed what devices should have."""
        self._settles = True
        self._wake.set()

    def drain(self) -> None:
        """Take nothing new; `run` ends after the turn in hand."""
        self._drained = True
        self._wake.set()

    async def run(self) -> None:
        while not self._drained:
            await self._turn()
            try:
                async with asyncio.timeout(self._settings.tick_s):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
        for _, answer in self._commands:
            if not answer.done():
                answer.set_exception(Unavailable("the fleet ends; say it again to its next start"))

    async def create(self, spec: RolloutSpec, by: str) -> RolloutView:
        """A draft. Raises `Malformed`, `Conflict`, `Unknown`, `Overloaded`, in words."""
        view = await asyncio.to_thread(self._hand.draft, _name(spec), spec, by, self._now())
        self._wrote()
        return view

    async def plan(self, spec: RolloutSpec) -> RolloutPlan:
        """Which devices would move when. Raises as `create`."""
        return await asyncio.to_thread(lambda: plan(spec, self._hand.targets(spec), self._now()))

    async def tell(
        self, rollout: str, verb: Verb, by: str, comment: str, revision: int | None
    ) -> RolloutView:
        """An operator's command, stored when this returns. Raises `Unknown`; `Conflict` where its
        revision is another one or its state does not allow it; `Overloaded`.
        """
        if len(self._commands) >= COMMANDS_MAX:
            raise Overloaded(f"{COMMANDS_MAX} commands wait for their turn; come again", 1.0)
        if self._drained:
            raise Unavailable("the fleet ends; say it again to its next start")
        answer: asyncio.Future[RolloutView] = asyncio.get_running_loop().create_future()
        self._commands.append((Command(rollout, verb, by, comment, revision), answer))
        self._wake.set()
        return await answer

    async def view(self, rollout: str) -> RolloutView:
        """As it is stored. Raises `Unknown`."""
        return await asyncio.to_thread(self._fleet.rollout, rollout)

    async def views(self, status: RolloutStatus | None) -> list[RolloutView]:
        return await asyncio.to_thread(self._fleet.rollouts, status)

    async def watch(
        self, rollout: str, seen: str | None, wait_s: float, ending: asyncio.Event
    ) -> tuple[RolloutView, str]:
        """The rollout once its tag is not `seen`, or after `wait_s` as it is; and its tag."""
        ends = asyncio.get_running_loop().time() + wait_s
        while True:
            moved = self._moved
            tag = self._tags.get(rollout)
            if tag is None or tag != seen:
                view = await self.view(rollout)
                tag = self._tags[rollout] = _tag(view)
                if tag != seen:
                    return view, tag
            left = ends - asyncio.get_running_loop().time()
            if left <= 0 or ending.is_set():
                return await self.view(rollout), tag
            await _first(moved, ending, left)

    async def _turn(self) -> None:
        events, missed = self._pending.take()
        waiting, self._commands = self._commands, []
        if missed:
            self._hand.read_all_again()
        began = time.monotonic()
        turned = await asyncio.to_thread(
            self._hand.turn, events, [command for command, _ in waiting], self._now()
        )
        self._metrics.turn_seconds.observe(time.monotonic() - began)
        for (_, answer), said in zip(waiting, turned.answers, strict=True):
            if not answer.done():  # who asked may have gone
                if isinstance(said, HybridgeError):
                    answer.set_exception(said)
                else:
                    answer.set_result(said)
        self._tell(turned)
        await self._settle()

    def _tell(self, turned: Turned) -> None:
        if turned.views:
            for view in turned.views:
                self._tags[view.id] = _tag(view)
            self._moved.set()
            self._moved = asyncio.Event()
        if turned.ordered:
            self._publish()
        if turned.wrote:
            self._wrote()
        self._settles = self._settles or turned.ended

    async def _settle(self) -> None:
        """Devices that no rollout holds get what their groups have."""
        now = time.monotonic()
        if not self._settles and now - self._settled_at < self._settings.settle_s:
            return
        self._settles, self._settled_at = False, now
        try:
            while orders := await asyncio.to_thread(
                self._fleet.settle, self._now(), _SETTLED_AT_ONCE
            ):
                self._metrics.orders.inc(len(orders))
                self._publish()
                self._wrote()
        except Unavailable as error:
            if self._said.admits("settle", now) is not None:
                log.warning("store_away", extra={"why": str(error)})


def _name(spec: RolloutSpec) -> str:
    """A new rollout's id, which says what it is for."""
    subject = spec.subject
    what = subject.model if isinstance(subject, ModelSubject) else subject.name
    version = str(subject.version).replace(".", "-")
    return f"{what[:48]}-{version}-{secrets.token_hex(3)}"


def _tag(view: RolloutView) -> str:
    return hashlib.sha256(view.model_dump_json().encode()).hexdigest()[:16]


async def _first(moved: asyncio.Event, ending: asyncio.Event, within_s: float) -> None:
    waits = [asyncio.create_task(moved.wait()), asyncio.create_task(ending.wait())]
    try:
        await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
