"""The agent's part in its fleet: takes desired state, acts on it, reports. All on the event loop.

It travels on the uplink's connection (`Passenger`). A message is acknowledged once its section is
on disk; what follows from it is done after that, so a kill in between loses nothing.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, assert_never, cast, get_args

from edge.agent import Agent
from edge.config import Config
from edge.fleet import desired, kept_file
from edge.fleet.asks import told
from edge.fleet.desired import Apply, Came, Effect, Follow, Judged, Refuse
from edge.fleet.drafts import model_draft, profile_draft, refusal, standing
from edge.fleet.kept import Kept
from edge.fleet.reporting import Reporting
from edge.fleet.telemetry_loop import TelemetryLoop
from edge.fleet.tuner import Tuner
from edge.telemetry.counters import Counters
from edge.updates.fleet_view import FleetView
from edge.updates.folders import factory_release
from edge.updates.target import Target
from edge.uplink.courier import Letter
from shared import topics
from shared.backoff import Jitter, pause_s
from shared.errors import HybridgeError, Unavailable
from shared.fleet.desired import DesiredModel, DesiredProfile, Section
from shared.fleet.reported import ReportedInventory, ReportedModel
from shared.logs import NewestLines, OncePer
from shared.mqtt.link import Delivery

if TYPE_CHECKING:
    from edge.updates.updates import Updates

log = logging.getLogger(__name__)

_SAVE_AGAIN_S = (1.0, 60.0)
_TOLD_EXPIRY_S = 60
_LOG_PERIOD_S = 60.0


class Fleet:
    def __init__(
        self,
        config: Config,
        agent: Agent,
        updates: "Updates | None",
        kept: Kept,
        inventory: Callable[[], ReportedInventory],
        serial: Callable[[], str | None],
        lines: NewestLines,
        counters: Counters,
        rng: Jitter,
    ) -> None:
        """Before the agent takes in anything: the profile that was in force is, from here on.

        `kept` as `kept_file.load` gives it; `inventory` is called in a thread;
        `serial` of the certificate that the device has.
        """
        assert config.fleet is not None
        assert agent.uplink is not None, "the settings see to it"
        self._agent, self._updates, self._uplink = agent, updates, agent.uplink
        self._state_dir, self._inventory, self._lines = config.state_dir, inventory, lines
        self._serial = serial
        self._counters, self._rng = counters, rng
        self._kept = self._on_disk = kept
        self._effects: list[Effect] = list(desired.started(kept))
        self._acks: list[Callable[[], None]] = []
        self._wake, self._draining = asyncio.Event(), asyncio.Event()
        self._reporting = Reporting(kept.sequence - kept_file.SEQUENCES)
        self._hardware: ReportedInventory | None = None
        self._following: DesiredModel | None = None
        self._trouble = ""
        self._saves_failed = 0
        self._again: asyncio.TimerHandle | None = None
        self._once = OncePer(_LOG_PERIOD_S)
        device = agent.device_id
        self._sections = {
            topics.desired(device, section): cast("Section", section)
            for section in get_args(Section)
        }
        self._ask = topics.ask(device)
        self.subscriptions = (*self._sections, self._ask)
        self._telemetry = TelemetryLoop(
            agent, agent.uplink, config.state_dir, config.fleet.telemetry_s,
            lambda: None if updates is None else updates.shadow_tally(), lambda: self._trouble, counters, rng,
        )  # fmt: skip
        self._tuner = Tuner(config, agent, updates, self._telemetry)
        self._restore()
        agent.count()
        if updates is not None:
            updates.on_change = self.changed
            agent.on_cloud = updates.cloud_said
        agent.uplink.carry(self)

    def _restore(self) -> None:
        """What was in force before; the device's own settings where that does not fit any more."""
        kept = self._kept
        if why := self._tuned(kept.applied, kept.model):
            self._kept = desired.lost(kept, why)
            self._tuned(None, kept.model)

    # Life

    async def run(self) -> None:
        """Until `drain`. Nothing that comes from outside ends it."""
        try:
            await self._take()  # of the process before; until then there is nothing to report
            self._hardware = await asyncio.to_thread(self._inventory)
            self._report()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._telemetry.run(), name="telemetry")
                while not self._draining.is_set():
                    await self._wake.wait()
                    self._wake.clear()
                    await self._take()
                    self._report()
        finally:
            logging.getLogger().removeHandler(self._lines)

    def drain(self) -> None:
        """What is not on disk yet comes again with the next connection."""
        self._draining.set()
        self._telemetry.drain()
        if self._again is not None:
            self._again.cancel()
        self._wake.set()

    def changed(self) -> None:
        """The model's state is another: report it."""
        self._report()

    # edge.uplink.passenger.Passenger

    def received(self, delivery: Delivery) -> None:
        if delivery.topic == self._ask:
            self._asked(delivery)
            return
        self._kept, effect = desired.step(
            self._kept, Came(self._sections[delivery.topic], delivery.payload)
        )
        if effect is not None:
            self._effects.append(effect)
        self._acks.append(delivery.ack)  # as many as the link's `receive_max` takes, no more
        self._wake.set()

    def came_up(self) -> None:
        self._reporting.forget()
        self._report()
        self._telemetry.came_up()

    # Acting

    async def _take(self) -> None:
        """First the disk, then the effects, then the acknowledgements."""
        kept, effects, acks = self._kept, self._effects, self._acks
        self._effects, self._acks = [], []
        if kept is not self._on_disk:
            await self._save(kept)
        for effect in effects:
            self._act(effect)
        for ack in acks:
            ack()
        if self._kept is not kept:
            self._wake.set()  # what became of them, or more came

    async def _save(self, kept: Kept) -> None:
        """A disk that does not take it holds nothing up, a way back least of all: after a restart
        the retained message comes again. It is tried again meanwhile.
        """
        try:
            await asyncio.to_thread(kept_file.save, self._state_dir, kept)
        except Unavailable as error:
            self._saves_failed += 1
            self._trouble = f"the fleet's state is not on disk: {error}"
            self._stray("fleet_state_not_written", str(error))
            pause = pause_s(self._saves_failed, *_SAVE_AGAIN_S, self._rng)
            loop = asyncio.get_running_loop()
            if self._again is not None:
                self._again.cancel()
            self._again = loop.call_later(pause, self._wake.set)
        else:
            self._on_disk, self._saves_failed, self._trouble = kept, 0, ""

    def _act(self, effect: Effect) -> None:
        match effect:
            case Follow(model=model):
                self._follow(model)
            case Apply(profile=profile):
                self._apply(profile)
            case Refuse(section=section, why=why):
                self._stray(f"desired_{section}_refused", why)
            case _:
                assert_never(effect)

    def _follow(self, model: DesiredModel) -> None:
        self._following = model
        self._tuned(self._kept.applied, model)
        if self._updates is None or self._refused():
            return
        target = Target(
            model.generation, model.version, model.manifest_sha256, model.stage, model.attempt,
            model.undo, model.rollout,
        )  # fmt: skip
        self._updates.follow(target)

    def _apply(self, profile: DesiredProfile) -> None:
        why = self._tuned(profile, self._following)
        if not why:
            log.info("profile_applied", extra={"profile": profile.name, "version": profile.version})
        self._kept, _ = desired.step(self._kept, Judged(profile, why))

    def _tuned(self, profile: DesiredProfile | None, model: DesiredModel | None) -> str:
        """Why not; "" where it was."""
        try:
            self._tuner.tune(profile, None if model is None else model.audit_share)
        except HybridgeError as error:
            why = str(error)
            if profile is not None:
                why = f"profile {profile.name} {profile.version}: {why}"
            self._stray("profile_refused", why)
            return why
        return ""

    # Telling

    def _asked(self, delivery: Delivery) -> None:
        try:
            answer = told(delivery.payload, self._lines.newest)
        except HybridgeError as error:
            self._stray("ask_refused", str(error))
        else:
            topic = topics.told(self._agent.device_id)
            self._uplink.send(Letter(topic, answer, expiry_s=_TOLD_EXPIRY_S))
        delivery.ack()

    def _report(self) -> None:
        if not self._uplink.up or self._hardware is None:
            return
        hardware = self._hardware.model_copy(update={"certificate_serial": self._serial()})
        drafts = (self._model_draft(), profile_draft(self._kept), hardware)
        for section, content in self._reporting.due(drafts, time.time()):
            topic = topics.reported(self._agent.device_id, section)
            self._uplink.send(Letter(topic, content, retain=True))
        if self._reporting.next > self._kept.sequence - kept_file.SEQUENCES // 2:
            self._kept = kept_file.more_numbers(self._kept)
            self._wake.set()

    def _model_draft(self) -> ReportedModel:
        agent = self._agent
        return model_draft(
            self._kept, self._following, self._view(), agent.manifest.name, agent.engine,
            self._refused(),
        )  # fmt: skip

    def _view(self) -> FleetView:
        if self._updates is not None:
            return self._updates.view()
        return standing(factory_release(self._agent.slot.bundle), self._following)

    def _refused(self) -> str:
        if (model := self._following) is None:
            return ""
        name, active = self._agent.manifest.name, self._view().active
        return refusal(model, name, active, updates=self._updates is not None)

    def _stray(self, kind: str, why: str) -> None:
        self._counters.add(kind)
        if (more := self._once.admits(kind, time.monotonic())) is not None:
            log.warning(kind, extra={"why": why[:500], "more_since_last": more})
