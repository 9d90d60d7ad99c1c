"""(8) Every queue stays within its bound."""

from typing import TYPE_CHECKING

from simulations.fleet.checkers.watcher import Watcher

if TYPE_CHECKING:
    from simulations.fleet.world import World

ENTRIES_PER_DEVICE = 60
"""What one device may have on the agenda: its works, its messages that are on their way."""
_ENTRIES = 2_000
_RETAINED_TOPICS = 3  # presence, reported, desired
_REFUSED_MAX, _KEPT = 8, 2


class Bounds(Watcher):
    name = "queues are bounded"

    def looked(self, world: "World") -> None:
        devices, network = len(world.devices), world.network
        if len(network.inbox) > network.inbox_max:
            raise self.broken(f"the broker keeps {len(network.inbox)} messages for the region")
        if len(network.retained) > _RETAINED_TOPICS * devices + 1:
            raise self.broken(f"the broker retains {len(network.retained)} messages")
        if len(world.store.unpublished) > devices:
            raise self.broken(f"{len(world.store.unpublished)} desired states wait")
        if len(world.agenda) > _ENTRIES + ENTRIES_PER_DEVICE * devices:
            raise self.broken(f"the agenda has {len(world.agenda)} entries")

    def healed(self, world: "World") -> None:
        self.looked(world)
        for device in world.devices:
            if len(device.state.refused) > _REFUSED_MAX or len(device.state.previous) > _KEPT:
                raise self.broken(f"{device.id} keeps {device.state}")
