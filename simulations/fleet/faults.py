"""A storm: what goes wrong, when and for how long; then everything heals."""

from collections.abc import Callable
from typing import TYPE_CHECKING, get_args

from cloud.rollouts.events import Told
from simulations.fleet import seeds
from simulations.fleet.network import CALM, Weather

if TYPE_CHECKING:
    from simulations.fleet.world import World

OPERATOR_S = 600.0
"""After the storm an operator looks so often, and puts right what waits for a person."""
_COMMANDS: tuple[str, ...] = get_args(Told.__annotations__["what"])


class Faults:
    def __init__(self, world: "World") -> None:
        self._world = world
        self._rng = seeds.source(world.seed, "faults")
        self.stormy = False
        self._removed: list[str] = []
        self._kinds: tuple[Callable[[], None], ...] = (
            self._partition, self._cut_control, self._weather, self._restart_broker,
            self._broker_away, self._power_cut, self._power_cut, self._quarantine,
        )  # fmt: skip

    def begin(self) -> None:
        storm = self._world.scenario.storm
        self.stormy = True
        self._world.deadly = storm.kills
        self._after(storm.every_s, self._something)
        if storm.operators_every_s:
            self._after(storm.operators_every_s, self._meddle)
        self._world.agenda.after(storm.lasts_s, self._heal)

    def _after(self, mean_s: float, what: Callable[[], None]) -> None:
        self._world.agenda.after(self._rng.expovariate(1.0 / mean_s), what)

    def _something(self) -> None:
        if self.stormy:
            self._rng.choice(self._kinds)()
            self._after(self._world.scenario.storm.every_s, self._something)

    def _note(self, kind: str, words: str) -> None:
        self._world.note("fault", kind, words)

    # The network

    def _partition(self) -> None:
        world, rng = self._world, self._rng
        share = rng.uniform(0.1, 0.9)
        apart = [device.id for device in world.devices if rng.random() < share]
        self._note("partition", f"{len(apart)} devices")
        world.network.apart |= set(apart)
        for name in apart:
            world.network.hang_up(name)
        self._after(600.0, lambda: world.network.apart.difference_update(apart))

    def _cut_control(self) -> None:
        network = self._world.network
        self._note("control cut off", "")
        network.control_apart = True
        network.control_gone()

        def back() -> None:
            network.control_apart = False

        self._after(300.0, back)

    def _weather(self) -> None:
        rng = self._rng
        weather = Weather(
            lost=rng.uniform(0, 0.1), twice=rng.uniform(0, 0.3), reordered=rng.uniform(0, 0.3),
            delay_s=rng.uniform(0.01, 5.0), late_s=rng.uniform(1.0, 200.0),
        )  # fmt: skip
        self._note("weather", f"lost {weather.lost:.3f}, delay {weather.delay_s:.1f} s")
        self._world.network.weather = weather

    def _restart_broker(self) -> None:
        forgets = self._rng.random() < 0.4
        self._note("broker restart", "forgets" if forgets else "remembers")
        self._world.network.restart(forgets=forgets)

    def _broker_away(self) -> None:
        network = self._world.network
        self._note("broker away", "")
        network.restart(forgets=False)
        network.up = False

        def back() -> None:
            network.up = True

        self._after(120.0, back)

    # Devices

    def _power_cut(self) -> None:
        world, rng = self._world, self._rng
        count = rng.randint(1, max(1, len(world.devices) // 4))
        chosen = rng.sample(world.devices, count)
        self._note("power cut", f"{count} devices")
        for device in chosen:
            device.die(rng.expovariate(1.0 / 400.0))

    def _quarantine(self) -> None:
        """Or let one back."""
        world, rng = self._world, self._rng
        if world.control is None:
            return
        if self._removed and rng.random() < 0.5:
            name = self._removed.pop(rng.randrange(len(self._removed)))
            world.control.remove(name, world.agenda.now, removed=False)
        else:
            name = rng.choice(world.devices).id
            if name in self._removed or name not in world.store.devices:
                return
            self._removed.append(name)
            world.control.remove(name, world.agenda.now, removed=True)
        self._note("quarantine", name)

    # Operators

    def _meddle(self) -> None:
        if not self.stormy:
            return
        self._tell(self._rng.choice(_COMMANDS))
        self._after(self._world.scenario.storm.operators_every_s, self._meddle)

    def _tell(self, what: str, *, newest: bool = True) -> None:
        """The newest rollout, or each that lives."""
        control, now = self._world.control, self._world.agenda.now
        if control is not None:
            living = [name for name, one in control.rollouts.items() if one.lives]
            for name in list(control.rollouts)[-1:] if newest else living:
                control.tell(name, Told(what, "operator", "as it came"), now)  # type: ignore[arg-type]  # of its own list

    # The end

    def _heal(self) -> None:
        world = self._world
        self._note("heal", "")
        self.stormy = False
        world.deadly, world.healed_at = 0.0, world.agenda.now
        network = world.network
        network.weather, network.up, network.control_apart = CALM, True, False
        network.apart.clear()
        for device in world.devices:
            device.boot()
        world.agenda.after(OPERATOR_S, self._attend)

    def _attend(self) -> None:
        """What waits for a person gets one; what does not end by itself is undone at last."""
        world = self._world
        world.agenda.after(OPERATOR_S, self._attend)
        passed = world.agenda.now - world.healed_at
        for what in ("resume", "approve"):
            self._tell(what, newest=False)  # a kill may have lost the end of one before
        if passed > 3 * 3600.0:
            self._tell("undo", newest=False)
