"""(5) No success while a device of the denominator runs another version, as far as one can know."""

from typing import TYPE_CHECKING

from cloud.rollouts.documents import ModelSubject, Phase, RolloutStatus
from cloud.rollouts.events import Changes
from cloud.rollouts.machine import Rollout
from simulations.fleet.agenda import Agenda
from simulations.fleet.checkers.watcher import Watcher

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulations.fleet.device import Device

NEWS_S = 600.0
"""A device that changed more recently than this may have told nobody yet."""


class Success(Watcher):
    name = "success means that they run it"

    def __init__(self, devices: "Mapping[str, Device]", agenda: Agenda) -> None:
        self._devices, self._agenda = devices, agenda

    def stepped(self, rollout: Rollout, changes: Changes) -> None:
        if not changes.head or rollout.status is not RolloutStatus.SUCCEEDED:
            return
        subject = rollout.spec.subject
        assert isinstance(subject, ModelSubject)
        for one in rollout.devices():
            device = self._devices[one.device]
            if one.phase not in (Phase.COMMITTED, Phase.DONE):
                continue
            fresh = self._agenda.now - device.changed_at < NEWS_S
            if device.nature.honest and device.runs != subject.version and not fresh:
                raise self.broken(f"{one.device} is {one.phase} and runs {device.runs}")
