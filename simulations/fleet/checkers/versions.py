"""(1) No device runs a version that is not released, or that its desired state never named."""

from typing import TYPE_CHECKING

from shared.fleet.desired import DesiredModel
from simulations.fleet.checkers.watcher import Watcher

if TYPE_CHECKING:
    from simulations.fleet.device import Device


class Versions(Watcher):
    name = "no version that nobody asked for"

    def __init__(self, factory: str, released: frozenset[str]) -> None:
        self._factory, self._released = factory, released
        self._asked: dict[str, set[str]] = {}

    def ordered(self, device: str, desired: DesiredModel) -> None:
        self._asked.setdefault(device, set()).add(desired.version)
        if desired.version not in self._released:
            raise self.broken(f"{device} is told to run {desired.version}, which is not released")

    def runs(self, device: "Device", version: str) -> None:
        if version == self._factory:
            return
        if version not in self._released or version not in self._asked.get(device.id, ()):
            raise self.broken(f"{device.id} runs {version}")
