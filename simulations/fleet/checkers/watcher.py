"""What a checker may look at, and how it says that something is broken."""

from typing import TYPE_CHECKING

from cloud.rollouts.events import Changes
from shared.fleet.desired import DesiredModel

if TYPE_CHECKING:
    from cloud.rollouts.machine import Rollout
    from simulations.fleet.device import Device
    from simulations.fleet.world import World


class Broken(AssertionError):
    """An invariant does not hold. The words name it, the moment and the device or rollout."""


class Watcher:
    """Sees everything, changes nothing. Every method does nothing until a checker needs it."""

    name = ""
    """The invariant, in a few words."""

    def ordered(self, device: str, desired: DesiredModel) -> None:
        """The control plane committed a desired state."""

    def took(self, device: "Device", desired: DesiredModel) -> None:
        """A device adopted a desired state."""

    def runs(self, device: "Device", version: str) -> None:
        """Another version answers on a device from now on."""

    def stepped(self, rollout: "Rollout", changes: Changes) -> None:
        """A rollout took an event."""

    def restored(self, rollout: "Rollout") -> None:
        """A control plane came back and read the rollout from its store."""

    def looked(self, world: "World") -> None:
        """Now and then, at no special moment."""

    def healed(self, world: "World") -> None:
        """The storm is over, and time went by."""

    def broken(self, words: str) -> Broken:
        return Broken(f"{self.name}: {words}")
