"""(6) After the storm, in time, every reachable device is where its desired state has it.
(7) A rollout that says rolled back has left nobody reachable on its version.
"""

from typing import TYPE_CHECKING

from cloud.rollouts.documents import ModelSubject, RolloutStatus
from shared.fleet.reported import DevicePhase
from simulations.fleet.checkers.watcher import Watcher

if TYPE_CHECKING:
    from simulations.fleet.device import Device
    from simulations.fleet.world import World

_CANNOT = (DevicePhase.REJECTED, DevicePhase.FAILED, DevicePhase.ROLLED_BACK)


def _follows(device: "Device", world: "World") -> bool:
    """Whether one may expect of it what it was told: it is here, tells the truth and has a link."""
    reachable = device.up and world.network.connected(device.id)
    return reachable and device.nature.lie != "version" and not device.nature.flaps_s


class Liveness(Watcher):
    name = "after the storm everybody has what the group has"

    def healed(self, world: "World") -> None:
        if not world.rollouts:
            raise self.broken("there is no rollout, though somebody wanted one")
        for rollout in world.rollouts:
            if rollout.lives or rollout.status is RolloutStatus.DRAFT:
                raise self.broken(
                    f"{rollout.id} is {rollout.status}: {rollout.view(world.agenda.now)}"
                )
        if world.store.unpublished:
            raise self.broken(f"{len(world.store.unpublished)} desired states are not published")
        for device in world.devices:
            if _follows(device, world):
                self._look(device, world)

    def _look(self, device: "Device", world: "World") -> None:
        row = world.store.devices.get(device.id)
        if row is None or row.desired is None:
            raise self.broken(f"{device.id} is here, and nothing was ordered for it")
        baseline = world.store.baseline()
        held = world.control is not None and world.control.holds(device.id)
        if row.desired.version != baseline.version and not held:
            raise self.broken(f"{device.id} should have {row.desired.version}, not the baseline")
        if device.state.followed != row.desired.generation:
            raise self.broken(
                f"{device.id} follows generation {device.state.followed} of {row.desired.generation}"
            )
        report = row.reported
        if report is None or report.version != device.runs:
            raise self.broken(f"{device.id} runs {device.runs}, which the region does not know")
        tries = device.nature.disk_full  # it fails, and tries again, for ever
        if device.runs != row.desired.version and report.phase not in _CANNOT and not tries:
            raise self.broken(f"{device.id} runs {device.runs}, and is {report.phase} for ever")


class RolledBack(Watcher):
    name = "rolled back means that nobody runs it"

    def healed(self, world: "World") -> None:
        for rollout in world.rollouts:
            subject = rollout.spec.subject
            assert isinstance(subject, ModelSubject)
            if rollout.status is not RolloutStatus.ROLLED_BACK:
                continue
            for device in world.devices:
                if device.runs == subject.version and _follows(device, world):
                    raise self.broken(f"{device.id} runs {device.runs}")
