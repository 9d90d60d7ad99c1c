"""What may be simulated, by name. Pure."""

from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from cloud.rollouts.documents import ModelSubject, RolloutSpec
from shared.errors import Unknown
from simulations.fleet.models import CANDIDATES, MODEL, Traits, candidate
from simulations.fleet.names import NAMES
from simulations.fleet.nature import Trouble
from simulations.fleet.traffic import Population

HOUR: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Storm:
    """Faults at random moments, for a while. Means are of exponential distributions."""

    lasts_s: float = 0.0
    """0: the weather is fair throughout."""
    every_s: float = 120.0
    """Between two faults of the network, the broker or devices."""
    kills: float = 0.0
    """Probability that the control plane dies at any one of the points where it may."""
    operators_every_s: float = 0.0
    """Between two commands of an operator, which may make no sense; 0: none."""


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    words: str
    candidate: str | None
    """Of `models.CANDIDATES`; None: drawn by the seed."""
    spec: RolloutSpec
    population: Population = field(default_factory=Population)
    trouble: Trouble = field(default_factory=Trouble)
    storm: Storm = field(default_factory=Storm)
    telemetry_s: float = 300.0
    report_s: float = 0.0
    """For so long a device gathers its news before it reports."""
    tick_s: float = 5.0
    before_s: float = 600.0
    """From the start of the devices to that of the rollout."""
    horizon_s: float = 12 * HOUR
    """When the run ends at the latest."""
    settle_s: float = 1800.0
    """From the end of the last rollout to that of the run: the slowest link needs so long."""
    late: float = 0.0
    """Share of devices that come for the first time while the rollout is under way."""
    on_wire: bool = False
    rollouts: int = 1
    """One after the other, each of a further version, while the storm lasts."""
    ends: tuple[str, ...] = ()
    """Statuses that the rollout may end in, where that is not up to chance."""


def subject(candidate: Traits) -> ModelSubject:
    return ModelSubject(model=MODEL, version=candidate.version, manifest_sha256=candidate.sha256)


_SUBJECT = subject(CANDIDATES["good"])
CALM_SPEC: Final = RolloutSpec(
    subject=_SUBJECT, group="all", seed="s", shadow_s=1 * HOUR, wave_s=0.5 * HOUR, watch_s=1 * HOUR,
    silence_s=1 * HOUR, in_flight_max=100_000,
)  # fmt: skip
STORM_SPEC: Final = RolloutSpec(
    subject=_SUBJECT, group="all", seed="s", shadow_s=900.0, shadow_samples=300, canary=0.1,
    waves=(0.4, 1.0), wave_s=300.0, watch_s=900.0, samples_min=100, done_samples=20,
    start_timeout_s=1800.0, device_timeout_s=2400.0, silence_s=900.0,
)  # fmt: skip
_STORMY: Final = Trouble(
    skewed=0.15, full=0.03, bad=0.03, slow_link=0.1, flapping=0.06, quiet=0.04, slowed=0.05,
    lying=0.08,
)  # fmt: skip
_ENDS: Final = {"good": ("succeeded",), "better": ("succeeded",)}


def _calm(name: str) -> Scenario:
    return Scenario(
        name=name,
        words=NAMES[name],
        candidate=name,
        spec=CALM_SPEC,
        telemetry_s=900.0,
        ends=_ENDS.get(name, ("rolled_back",)),
    )


def scenario(name: str) -> Scenario:
    """Raises `Unknown` for a name that is none."""
    if name in CANDIDATES:
        return _calm(name)
    if name == "storm":
        return Scenario(
            name=name,
            words=NAMES[name],
            candidate=None,
            spec=STORM_SPEC,
            population=Population(samples_per_s=0.5),
            trouble=_STORMY,
            storm=Storm(lasts_s=2 * HOUR, kills=0.0005, operators_every_s=1200.0),
            telemetry_s=150.0,
            tick_s=10.0,
            before_s=400.0,
            horizon_s=8 * HOUR,
            late=0.1,
            rollouts=3,
            on_wire=True,
        )
    raise Unknown(f"no scenario {name[:60]!r}; there are {', '.join(NAMES)}")


_MIX: Final = (
    "good",
    "good",
    "good",
    "better",
    "worse",
    "crash",
    "crash-late",
    "nan",
    "slower",
    "flaky",
)


LARGE: Final = 10_000


def sized(scenario: Scenario, devices: int) -> Scenario:
    """For fleets over `LARGE` devices: they send telemetry each hour and gather their news for two
    minutes, the region looks each minute and watches for half an hour; a run would take five times
    as long and show the same.
    """
    if devices <= LARGE:
        return scenario
    spec = scenario.spec.model_copy(update={"silence_s": 3 * HOUR, "watch_s": 0.5 * HOUR})
    return replace(
        scenario, spec=spec, telemetry_s=HOUR, report_s=120.0, tick_s=60.0, settle_s=600.0
    )


def candidates(scenario: Scenario, rng: Random) -> tuple[Traits, ...]:
    """The versions that are rolled out in turn: 1.1.0, 1.2.0 and so on."""
    kinds = [scenario.candidate or rng.choice(_MIX) for _ in range(scenario.rollouts)]
    return tuple(candidate(kind, f"1.{n}.0") for n, kind in enumerate(kinds, start=1))


def varied(spec: RolloutSpec, rng: Random) -> RolloutSpec:
    """Another rollout for a storm: what operators may set, set this way and that."""
    loose = ("install_failures <= 0.6", "silent <= 0.6", "accuracy_loss <= 0.05")
    none: tuple[str, ...] = ()
    return spec.model_copy(
        update={
            "shadow_s": rng.choice((0.0, spec.shadow_s)),
            "canary": rng.choice((0.01, 0.1, 0.3)),
            "waves": rng.choice(((1.0,), (0.4, 1.0), (0.3, 0.3, 0.6, 1.0))),
            "criteria": rng.choice((spec.criteria, loose, loose, none)),
            "approvals": rng.choice(((), (), ("canary",), ("wave", "watch"))),
            "window": rng.choice(((), (), ("00:00-23:00",), ("08:00-09:00", "09:30-23:30"))),
            "in_flight_max": rng.choice((1, 5, 10_000)),
            "on_bad": rng.choice(("undo", "undo", "pause")),
            "watch_s": rng.choice((0.0, spec.watch_s)),
        }
    )
