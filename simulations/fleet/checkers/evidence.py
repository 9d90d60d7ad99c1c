"""(9) The evidence never counts a sample twice: it has at most what devices really did."""

from typing import TYPE_CHECKING, Final

from cloud.rollouts.documents import ModelSubject
from simulations.fleet.checkers.watcher import Watcher

if TYPE_CHECKING:
    from simulations.fleet.world import World

LIAR_FLOOR: Final = 2_000
LIAR_TIMES: Final = 10
"""A device that makes samples up is believed only so much more than others (collector.py)."""


class Evidence(Watcher):
    name = "no sample counts twice"

    def __init__(self, world: "World") -> None:
        self._liars = sum(not device.nature.honest for device in world.devices)
        self._devices = len(world.devices)

    def looked(self, world: "World") -> None:
        rollout = world.rollout
        if rollout is None:
            return
        assert isinstance(rollout.spec.subject, ModelSubject)
        # by its own version: a kill may have lost the one that was begun last
        traffic, version = world.traffic, world.around.index[rollout.spec.subject.version]
        bounds = {
            "inference_failures": int(
                traffic.done[:, version].sum() + traffic.failed[:, version].sum()
            ),
            "escalation_rate": int(traffic.done[:, version].sum()),
            "accuracy_loss": int(traffic.compared.sum()),
        }
        for one in rollout.view(world.agenda.now).criteria:
            true = bounds.get(one.text.split()[0])
            if true is None:
                continue
            share = true / max(1, self._devices - self._liars)
            # liars are among the others by whom each of them is measured
            most = true + self._liars**2 * (LIAR_FLOOR + int(LIAR_TIMES * share))
            if one.samples > most:
                raise self.broken(f"{one.text} counts {one.samples} samples of {true}")

    def healed(self, world: "World") -> None:
        self.looked(world)
