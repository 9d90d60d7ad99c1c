"""What is peculiar about each device of a simulated fleet. Pure."""

from dataclasses import dataclass
from random import Random
from typing import Literal

from simulations.fleet import seeds

Lie = Literal["", "version", "flood", "future", "repeat", "reorder"]


@dataclass(frozen=True, slots=True)
class Nature:
    clock_offset_s: float = 0.0
    """Its clock less the true time."""
    download_s: float = 20.0
    disk_full: bool = False
    bad_hardware: bool = False
    """Its golden samples come out wrong, whatever the model."""
    flaps_s: float = 0.0
    """Mean seconds between losses of its link; 0: it has a good one."""
    quiet: bool = False
    """Nobody gives it samples."""
    slowed: float = 1.0
    """Times the latency of a healthy one."""
    lie: Lie = ""
    """version: says that it runs what it was told, and does not; flood: ten reports for one;
    future: its clock and counters are far ahead; repeat: says everything again; reorder: says old
    things after new ones."""

    @property
    def honest(self) -> bool:
        return self.lie in ("", "repeat", "reorder")


ORDINARY = Nature()


@dataclass(frozen=True, slots=True)
class Trouble:
    """Shares of devices that are out of the ordinary; they are disjoint, and sum to at most 1."""

    skewed: float = 0.0
    full: float = 0.0
    bad: float = 0.0
    slow_link: float = 0.0
    flapping: float = 0.0
    quiet: float = 0.0
    slowed: float = 0.0
    lying: float = 0.0


LIES: tuple[Lie, ...] = ("version", "flood", "future", "repeat", "reorder")


def nature(seed: int, device: int, trouble: Trouble) -> Nature:
    """The same for a seed and a device, however many others there are."""
    rng = seeds.source(seed, "nature", device)
    at = rng.random()
    for share, make in (
        (trouble.skewed, _skewed),
        (trouble.full, lambda _: Nature(disk_full=True)),
        (trouble.bad, lambda _: Nature(bad_hardware=True)),
        (trouble.slow_link, lambda r: Nature(download_s=r.uniform(200.0, 900.0))),
        (trouble.flapping, lambda r: Nature(flaps_s=r.uniform(120.0, 900.0))),
        (trouble.quiet, lambda _: Nature(quiet=True)),
        (trouble.slowed, lambda r: Nature(slowed=r.uniform(2.0, 4.0))),
        (trouble.lying, lambda r: Nature(lie=r.choice(LIES))),
    ):
        if at < share:
            return make(rng)
        at -= share
    return ORDINARY


def _skewed(rng: Random) -> Nature:
    return Nature(clock_offset_s=rng.choice((-1.0, 1.0)) * 10 ** rng.uniform(1.0, 8.0))
