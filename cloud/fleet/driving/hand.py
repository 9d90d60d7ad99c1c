"""The rollouts that are running or paused, in memory: stepped, stored, and read again when that
failed. Blocking; used by one thread at a time (`driver.py`).
"""

import logging
import time
from collections.abc import Iterable, Sequence
from typing import Final

from cloud.fleet.desired_state import Desired
from cloud.fleet.devices import Fleet
from cloud.fleet.documents import Device
from cloud.fleet.driving.commands import order, restored
from cloud.fleet.driving.step import Command, Step, Turned
from cloud.fleet.driving.targets import events_of, targets
from cloud.fleet.metrics import FleetMetrics
from cloud.fleet.rollout_keeping import RolloutSave
from cloud.rollouts.documents import (
    ModelSubject,
    RolloutSpec,
    RolloutStatus,
    RolloutView,
)
from cloud.rollouts.events import (
    Event,
    Note,
    Order,
    Removed,
    Restore,
    Target,
    Ticked,
    Told,
    Went,
)
from cloud.rollouts.machine import Rollout
from shared.errors import Conflict, HybridgeError, Unavailable

log = logging.getLogger(__name__)

_PAGE: Final = 1000
_ACTIVE: Final = (RolloutStatus.RUNNING, RolloutStatus.PAUSED)


class Hand:
    def __init__(self, fleet: Fleet, metrics: FleetMetrics) -> None:
        self._fleet, self._metrics = fleet, metrics
        self._rollouts: dict[str, Rollout] = {}
        self._devices_of: dict[str, frozenset[str]] = {}
        self._to_read: set[str] | None = None
        """Rollouts to read from the store before anything else; None: whichever are active."""

    @property
    def count(self) -> int:
        return len(self._rollouts)

    def turn(self, events: Sequence[Event], commands: Sequence[Command], now: float) -> Turned:
        """Step every rollout by the events that are its devices' and by the clock, and give the
        commands. Each rollout is one commit; one whose commit fails is read from the store again.
        """
        turned = Turned()
        try:
            self._read_again(turned, now)
        except Unavailable as error:
            turned.answers = [error for _ in commands]
            return turned
        for command in commands:
            turned.answers.append(self._tell(command, turned, now))
        for rollout in list(self._rollouts):
            self._step(rollout, events, turned, now)
        return turned

    def read_all_again(self) -> None:
        """Events were lost: what the store has of devices says the same."""
        self._to_read = None

    def draft(self, name: str, spec: RolloutSpec, by: str, now: float) -> RolloutView:
        """Make one and store it. Raises as `Rollout.plan_new`, `Unknown` for its group."""
        rollout = Rollout.plan_new(name, spec, self.targets(spec), by, now)
        self._save_new(rollout, now, None, [Note("rollout_made", _words(spec))], by)
        return rollout.view(now)

    def targets(self, spec: RolloutSpec) -> list[Target]:
        """Whom it would move now. Raises `Unknown` for its group, `Malformed` for its selector."""
        self._fleet.group(spec.group)
        devices = (one for one in self._devices(spec.selector) if one.group == spec.group)
        return list(targets(spec, devices))

    def _tell(self, command: Command, turned: Turned, now: float) -> RolloutView | HybridgeError:
        try:
            return self._told(command, turned, now)
        except HybridgeError as error:
            return error

    def _told(self, command: Command, turned: Turned, now: float) -> RolloutView:
        name = command.rollout
        present = self._fleet.rollout(name)
        if command.revision is not None and command.revision != present.revision:
            raise Conflict(
                f"rollout {name} has changed since revision {command.revision}: it is {present.status} "
                f"at revision {present.revision}{_because(present)}; look at it, then say it again"
            )
        rollout = self._rollouts.get(name) or self._read(name)
        told = Told(command.verb, command.by, command.comment)
        rollout.check(told, now)
        step = Step()
        if command.verb == "undo" and not rollout.lives and not self._fleet.parks(name):
            raise Conflict(
                f"rollout {name} was aborted, and group {rollout.spec.group} was given something else "
                "since; its devices are moved by a rollout to the version that they should have"
            )
        if command.verb == "start":
            self._check_alone(rollout)
            # its devices, and what they have, are fixed now and not when the draft was made
            rollout = Rollout.plan_new(
                name, present.spec, self.targets(present.spec), present.created_by,
                present.created_at,
            )  # fmt: skip
            for event in self._now_of([rollout]):
                if isinstance(event, Went):  # before it began, so no will is to come
                    rollout.step(event, now)
            step.starts = True
            step.devices.update(dict.fromkeys(one.device for one in rollout.devices()))
        step.add(rollout.step(told, now))
        self._keep(rollout)
        self._save(rollout, step, turned, now, command.by)
        return rollout.view(now)

    def _check_alone(self, rollout: Rollout) -> None:
        """One that goes back is active no more for the store, but its devices still are its own."""
        mine = _place_of(rollout)
        for other in self._rollouts.values():
            if other.lives and _place_of(other) == mine:
                raise Conflict(
                    f"rollout {other.id} is {other.status.value}"
                    f"{' and being undone' if other.undoing else ''} in group {rollout.spec.group}; "
                    "one at a time: wait for it, or abort it"
                )

    def _step(self, name: str, events: Sequence[Event], turned: Turned, now: float) -> None:
        rollout, step, count = self._rollouts[name], Step(), 0
        members = self._devices_of[name]
        for event in events:
            if isinstance(event, Ticked | Told) or event.device in members:
                step.add(rollout.step(event, now))
                count += 1
        step.add(rollout.step(Ticked(), now))
        self._metrics.steps.inc(count + 1)
        if step.is_nothing:
            return
        try:
            self._save(rollout, step, turned, now, "rollout")
        except HybridgeError as error:  # it is read from the store again
            log.warning("rollout_not_stored", extra={"rollout": name, "why": str(error)})

    def _save(self, rollout: Rollout, step: Step, turned: Turned, now: float, actor: str) -> None:
        view = rollout.view(now)
        began = time.monotonic()
        try:
            orders = self._fleet.save_rollouts([RolloutSave(
                view, rollout.to_record(),
                [
                    (found, rollout.device_record(one))
                    for one in step.devices
                    if (found := rollout.device(one)) is not None
                ],
                self._orders(rollout, view, step.orders.values()),
                step.notes, actor, step.sets_baseline, replaces_devices=step.starts,
            )], now)  # fmt: skip
        except BaseException:
            # in memory it is ahead of the store now
            self._forget(view.id)
            if self._to_read is not None:
                self._to_read.add(view.id)
            raise
        self._metrics.commit_seconds.observe(time.monotonic() - began)
        self._metrics.orders.inc(len(orders))
        turned.views.append(view)
        turned.wrote = turned.wrote or bool(step.notes)
        turned.ordered = turned.ordered or bool(orders)
        if not rollout.lives:
            self._forget(view.id)
            turned.ended = True

    def _keep(self, rollout: Rollout) -> None:
        self._rollouts[rollout.id] = rollout
        self._devices_of[rollout.id] = frozenset(one.device for one in rollout.devices())

    def _forget(self, name: str) -> None:
        del self._rollouts[name], self._devices_of[name]

    def _orders(
        self, rollout: Rollout, view: RolloutView, commands: Iterable[Order | Restore]
    ) -> list[tuple[str, Desired]]:
        spec, found = view.spec, list[tuple[str, Desired]]()
        group = profile = None
        for command in commands:
            if isinstance(command, Order):
                subject = spec.subject
                if profile is None and not isinstance(subject, ModelSubject):
                    profile = self._fleet.profile(subject.name, subject.version)
                found.append((command.device, order(command, view.id, spec, profile)))
                continue
            group = group or self._fleet.group(spec.group)
            device, target = rollout.device(command.device), rollout.target(command.device)
            assert device is not None and target is not None  # noqa: PT018  it commands its own
            before = restored(
                command, view.id, spec, device, target.before_sha256, group, self._fleet.profile
            )
            if before is not None:
                found.append((command.device, before))
        return found

    def _save_new(
        self, rollout: Rollout, now: float, revision: int | None, notes: list[Note], by: str
    ) -> None:
        devices = [(one, rollout.device_record(one.device)) for one in rollout.devices()]
        self._fleet.save_rollouts([RolloutSave(
            rollout.view(now), rollout.to_record(), devices, notes=notes, actor=by,
            revision=revision,
        )], now)  # fmt: skip

    def _read_again(self, turned: Turned, now: float) -> None:
        """What the store has, brought up to date with what it has of devices. Raises `Unavailable`."""
        if self._to_read is None:
            names = {view.id for one in _ACTIVE for view in self._fleet.rollouts(one)}
            names |= {
                view.id for view in self._fleet.rollouts(RolloutStatus.ABORTED) if view.undoing
            }
            for name in list(self._rollouts):
                self._forget(name)
        else:
            names = set(self._to_read)
        read = [one for name in sorted(names) if (one := self._read(name)).lives]
        events = list(self._now_of(read)) if read else []
        for one in read:
            self._keep(one)
        self._to_read = set()
        for one in read:
            self._step(one.id, events, turned, now)

    def _read(self, name: str) -> Rollout:
        records = self._fleet.rollout_device_records(name)
        return Rollout.from_record(self._fleet.rollout_record(name), list(records.values()))

    def _now_of(self, rollouts: Iterable[Rollout]) -> Iterable[Event]:
        """What the store has of all their devices, as events: copies change nothing."""
        missing = {one.device for rollout in rollouts for one in rollout.devices()}
        for device in self._devices(""):
            if device.id in missing:
                missing.discard(device.id)
                yield from events_of(device)
        for name in sorted(missing):
            yield Removed(name, "removed")

    def _devices(self, selector: str) -> Iterable[Device]:
        after: str | None = ""
        while after is not None:
            page, after = self._fleet.devices(selector, after, _PAGE)
            yield from page


def _place_of(rollout: Rollout) -> tuple[str, str]:
    """What two rollouts may not have in common while they live: a device has one profile."""
    subject = rollout.spec.subject
    return subject.model if isinstance(subject, ModelSubject) else "", rollout.spec.group


def _words(spec: RolloutSpec) -> str:
    subject = spec.subject
    what = subject.model if isinstance(subject, ModelSubject) else f"profile {subject.name}"
    return f"{what} {subject.version} for group {spec.group}"


def _because(view: RolloutView) -> str:
    return f" ({view.why})" if view.why else ""
