"""(2) A device's place in a rollout never changes; no order goes beyond the open stages."""

from cloud.rollouts.documents import DeviceInRollout, RolloutStatus
from cloud.rollouts.events import Changes, Order
from cloud.rollouts.machine import Rollout
from simulations.fleet.agenda import Agenda
from simulations.fleet.checkers.watcher import Watcher


class Cohorts(Watcher):
    name = "cohorts are frozen, and no order leaves the open stages"

    def __init__(self, agenda: Agenda) -> None:
        self._agenda = agenda
        self._places: dict[str, dict[str, int]] = {}
        self._first: dict[str, int] = {}
        self._known: dict[str, Rollout] = {}

    def stepped(self, rollout: Rollout, changes: Changes) -> None:
        if self._known.get(rollout.id) is not rollout:
            # made anew: what a kill lost was never stored, and nobody got an order
            self._known[rollout.id] = rollout
            self._places[rollout.id] = _places(rollout)
            # the shadow has the canary's devices
            self._first[rollout.id] = min(self._places[rollout.id].values())
        places = self._places[rollout.id]
        orders = [command for command in changes.commands if isinstance(command, Order)]
        open_stage = rollout.view(self._agenda.now).stage if orders else 0
        for command in orders:
            place = places.get(command.device)
            if place is None:
                raise self.broken(f"{command.device} is ordered, and not of {rollout.id}")
            if place > max(open_stage, self._first.get(rollout.id, 0)):
                raise self.broken(f"{command.device} of stage {place} is ordered in {open_stage}")
        for device in changes.devices:
            self._same(rollout, device)

    def restored(self, rollout: Rollout) -> None:
        before = self._places.get(rollout.id)
        if before is None or rollout.status is RolloutStatus.DRAFT:
            return  # its devices are fixed when it starts
        self._known[rollout.id] = rollout
        if _places(rollout) != before:
            raise self.broken(f"{rollout.id} has other devices or another order after a restart")

    def _same(self, rollout: Rollout, device: str) -> None:
        before, after = self._places[rollout.id].get(device), _one(rollout, device).stage
        if before != after:
            raise self.broken(f"{device} was of stage {before} and is of {after}")


def _one(rollout: Rollout, device: str) -> DeviceInRollout:
    found = rollout.device(device)
    assert found is not None, f"{device} changed, and is not of {rollout.id}"
    return found


def _places(rollout: Rollout) -> dict[str, int]:
    return {one.device: one.stage for one in rollout.devices()}
