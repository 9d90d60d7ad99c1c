"""Thousands of seeds of small fleets with everything wrong at once; what breaks is named by its seed."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from simulations.fleet import seeds
from simulations.fleet.checkers.watcher import Broken
from simulations.fleet.run import Outcome, simulate
from simulations.fleet.scenarios import scenario

DEVICES_MIN, DEVICES_MAX = 20, 60


@dataclass(frozen=True, slots=True)
class Seeded:
    seed: int
    outcome: Outcome | None
    broken: str = ""
    """The invariant, in words."""


def devices_of(seed: int) -> int:
    return DEVICES_MIN + seeds.number(seed, "devices") % (DEVICES_MAX - DEVICES_MIN + 1)


def one(name: str, seed: int) -> Seeded:
    try:
        return Seeded(seed, simulate(scenario(name), seed, devices_of(seed)).outcome)
    except Broken as error:
        return Seeded(seed, None, str(error)[:2000])


def several(name: str, first: int, count: int, processes: int) -> Iterator[Seeded]:
    """In the order of the seeds."""
    if processes == 1:
        yield from (one(name, seed) for seed in range(first, first + count))
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(one, [name] * count, range(first, first + count), chunksize=8)


def run_many(name: str, first: int, count: int, processes: int, *, as_json: bool) -> bool:
    """Whether every invariant held. Prints what broke, and how the runs ended."""
    ends: Counter[str] = Counter()
    kills = messages = 0
    broken: list[Seeded] = []
    for seeded in several(name, first, count, processes):
        if seeded.outcome is None:
            broken.append(seeded)
            sys.stderr.write(f"seed {seeded.seed}: {seeded.broken}\n")
            continue
        ends[f"{seeded.outcome.candidate}: {seeded.outcome.status}"] += 1
        kills += seeded.outcome.kills
        messages += seeded.outcome.messages
    found = {
        "scenario": name, "seeds": count, "broken": [one.seed for one in broken],
        "control_plane_kills": kills, "messages": messages, "ends": dict(sorted(ends.items())),
    }  # fmt: skip
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        print(f"{count} seeds of {name}, {kills} kills of the control plane, {messages:,} messages")
        for end, number in sorted(ends.items()):
            print(f"{number:>7}  {end}")
        print(
            f"{len(broken)} seeds broke an invariant" + (f": {found['broken']}" if broken else "")
        )
    return not broken
