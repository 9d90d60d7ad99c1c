"""A region on virtual time without a network: the real store, the real rollouts in hand, devices
without models, and a broker that is a dictionary of what it retained.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from prometheus_client import CollectorRegistry

from cloud.fleet.desired_state import Desired, section_of
from cloud.fleet.device_settings import DeviceSettings
from cloud.fleet.devices import Fleet
from cloud.fleet.driving.hand import Hand
from cloud.fleet.driving.step import Command, Turned
from cloud.fleet.metrics import FleetMetrics
from cloud.fleet.parsing import said, whose
from cloud.fleet.passing_on import events, heard
from cloud.fleet.rollout_keeping import RolloutSave
from cloud.fleet.store.database import FleetDatabase
from cloud.rollouts.documents import ModelSubject, RolloutSpec, RolloutView
from cloud.rollouts.events import Event
from shared.topics import desired as desired_topic
from simulations.light_devices.behaviour import Behaviour
from simulations.light_devices.device import LightDevice, Message
from tests.cloud.fleet.light import MODEL, NEW, OLD

START = 1_700_000_000.0
TICK_S = 1.0


class Killed(BaseException):
    """The process, at this very point."""


class KilledFleet(Fleet):
    """Is killed at the n-th commit of a rollout, before it or after it."""

    kill_at: int | None = None
    kill_when: Literal["before", "after"] = "before"
    commits = 0

    def save_rollouts(self, saves: Sequence[RolloutSave], now: float) -> list[tuple[str, Desired]]:
        self.commits += 1
        dies = self.commits == self.kill_at
        if dies and self.kill_when == "before":
            raise Killed
        found = super().save_rollouts(saves, now)
        if dies:
            raise Killed
        return found


class Region:
    def __init__(
        self, folder: Path, count: int, behaviours: Mapping[str, Behaviour] | None = None
    ) -> None:
        self.url = f"sqlite:///{folder / 'fleet.db'}"
        self.database = FleetDatabase(self.url)
        self.database.open()
        self.settings = DeviceSettings(needs_enrolment=False)
        self.fleet = KilledFleet(self.database, self.settings)
        self.devices = [
            LightDevice(f"d{n:02}", MODEL, OLD, behaviours or {}, seed=n, samples_per_s=50.0)
            for n in range(count)
        ]
        self.now = START
        self.retained: dict[str, bytes] = {}
        self.orders: list[tuple[str, Desired]] = []
        """As they were published."""
        self.metrics = FleetMetrics(CollectorRegistry())
        self.deaths = 0
        self.restart()
        self.hear([m for device in self.devices for m in device.connected(self.now)])

    def restart(self) -> None:
        """A new process: nothing but the store, and what the broker retained."""
        self.hand = Hand(self.fleet, self.metrics)
        self._events: list[Event] = []

    def close(self) -> None:
        self.database.close()

    def hear(self, messages: Sequence[Message]) -> None:
        batch = [said(*whose(m.topic), m.payload) for m in messages]
        recorded = self.fleet.record([(one.device, heard(one)) for one in batch], self.now)
        self._events += events(recorded, batch)

    def turn(self, *commands: Command) -> Turned:
        """One tick; a death in it costs what it had not stored."""
        self.now += TICK_S
        self.hear([device.telemetry(self.now, TICK_S) for device in self.devices])
        turned = Turned()
        try:
            waiting, self._events = self._events, []
            turned = self.hand.turn(waiting, commands, self.now)
            self.fleet.settle(self.now)
        except Killed:
            self.deaths += 1
            self.restart()
        self.publish()
        return turned

    def publish(self) -> None:
        for device, order in self.fleet.unpublished():
            topic = desired_topic(device, section_of(order))  # type: ignore[arg-type]  # a device id
            self.retained[topic] = order.to_bytes()
            self.orders.append((device, order))
            self.fleet.published([(device, section_of(order), order.generation)])
            for one in self.devices:
                if one.name == device:  # else it is away, and finds what is retained
                    self.hear(one.received(topic, order.to_bytes(), self.now))

    def tell(self, rollout: str, verb: str, revision: int | None = None) -> RolloutView:
        """Raises what the command is refused with."""
        command = Command(rollout, verb, "an operator", "", revision)  # type: ignore[arg-type]  # a verb
        answers = self.turn(command).answers
        if not answers:  # it died, and the operator says it again
            return self.fleet.rollout(rollout)
        if isinstance(answers[0], RolloutView):
            return answers[0]
        raise answers[0]

    def until(self, rollout: str, *ends: str, turns: int = 200) -> RolloutView:
        for _ in range(turns):
            self.turn()
            view = self.fleet.rollout(rollout)
            if view.status in ends and not view.undoing:
                return view
        raise AssertionError(f"it never came to {ends}: {self.fleet.rollout(rollout)}")


def spec(**more: object) -> RolloutSpec:
    fields: dict[str, object] = {
        "subject": ModelSubject(
            model=MODEL, version=NEW.version, manifest_sha256=NEW.manifest_sha256
        ),
        "group": "all", "seed": "s", "shadow_s": 0.0, "canary": 0.3, "waves": (1.0,),
        "wave_s": 2.0, "watch_s": 2.0, "samples_min": 10, "done_samples": 10,
        "criteria": ("install_failures <= 0.1", "golden_failures <= 0"),
    }  # fmt: skip
    return RolloutSpec.model_validate(fields | more)
