"""How often the evidence stops a bad version within the canary, and a good one at all.

Intervals are exact ones for a binomial share (Clopper and Pearson 1934), at 95%.
"""

import json
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from typing import Final

from scipy.stats import beta

from shared.errors import Malformed
from simulations.fleet.run import simulate
from simulations.fleet.scenarios import Scenario, scenario
from simulations.fleet.traffic import Population

KINDS: Final = ("worse", "crash", "crash-late", "nan", "golden", "slow", "good", "better")
GOOD: Final = ("good", "better")


@dataclass(frozen=True, slots=True)
class Odds:
    kind: str
    runs: int
    stopped: int
    """Of a good version: falsely. Of a bad one: before any device beyond the canary was ordered."""
    share: float
    low: float
    high: float
    unfinished: int
    """Runs that neither succeeded nor were rolled back: they wait for a person."""


def interval(hits: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Clopper-Pearson, of a share."""
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(beta.ppf(tail, hits, trials - hits + 1))
    high = 1.0 if hits == trials else float(beta.ppf(1 - tail, hits + 1, trials - hits))
    return low, high


def setting(kind: str) -> Scenario:
    """As the scenario of that name, with a fleet in which a run is quick: 10 devices are canaries,
    each with one sample a second.
    """
    return replace(scenario(kind), population=Population(samples_per_s=1.0))


def ended(kind: str, seed: int, devices: int) -> tuple[str, str]:
    """Status and the kind of the stage in which it ended."""
    outcome = simulate(setting(kind), seed, devices, checked=False).outcome
    return outcome.status, outcome.stage.split(" ")[0]


def odds(kind: str, runs: int, devices: int, first: int, processes: int) -> Odds:
    seeds = range(first, first + runs)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        ends = list(pool.map(ended, [kind] * runs, seeds, [devices] * runs, chunksize=4))
    early = ("shadow", "canary")
    stopped = sum(
        status == "rolled_back" and (kind in GOOD or stage in early) for status, stage in ends
    )
    low, high = interval(stopped, runs)
    unfinished = sum(status not in ("succeeded", "rolled_back") for status, _ in ends)
    return Odds(kind, runs, stopped, stopped / runs, low, high, unfinished)


def print_odds(
    kinds: str, runs: int, devices: int, first: int, processes: int, *, as_json: bool
) -> None:
    """Raises `Unknown` for a kind that is no scenario, before anything runs."""
    asked = tuple(kinds.split(",")) if kinds else KINDS
    for kind in asked:
        if scenario(kind).candidate is None:
            raise Malformed(f"{kind}: its version is drawn by the seed; name another scenario")
    found = []
    for kind in asked:
        one = odds(kind, runs, devices, first, processes)
        found.append(one)
        if not as_json:
            what = "falsely stopped" if kind in GOOD else "stopped by the end of the canary"
            waits = f"; {one.unfinished} wait for a person" if one.unfinished else ""
            print(
                f"{kind:<15} {what:<33} {one.stopped:>5} of {runs}: {one.share:.4f} "
                f"[{one.low:.4f}, {one.high:.4f}]{waits}"
            )
    if as_json:
        print(json.dumps([asdict(one) for one in found], indent=2))
