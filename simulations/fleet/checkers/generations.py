"""(3) The generation of what a device takes never falls, over restarts too."""

from typing import TYPE_CHECKING

from shared.fleet.desired import DesiredModel
from simulations.fleet.checkers.watcher import Watcher

if TYPE_CHECKING:
    from simulations.fleet.device import Device


class Generations(Watcher):
    name = "generations rise"

    def __init__(self) -> None:
        self._ordered: dict[str, int] = {}
        self._taken: dict[str, int] = {}

    def ordered(self, device: str, desired: DesiredModel) -> None:
        if desired.generation <= self._ordered.get(device, 0):
            raise self.broken(f"{device} is ordered generation {desired.generation} again")
        self._ordered[device] = desired.generation

    def took(self, device: "Device", desired: DesiredModel) -> None:
        if desired.generation <= self._taken.get(device.id, 0):
            raise self.broken(f"{device.id} takes generation {desired.generation} again")
        if desired.generation > self._ordered.get(device.id, 0):
            raise self.broken(f"{device.id} takes generation {desired.generation} of nobody")
        self._taken[device.id] = desired.generation
