"""Small fleets with everything wrong at once; thousands of further seeds: `make simulate-fleet`."""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from simulations.fleet.checkers.watcher import Broken
from simulations.fleet.run import simulate
from simulations.fleet.scenarios import HOUR, Storm, scenario

STORM = scenario("storm")
SQUALL = replace(
    STORM,
    storm=replace(STORM.storm, lasts_s=0.5 * HOUR, every_s=60.0, kills=0.002),
    rollouts=2,
    telemetry_s=300.0,
    tick_s=20.0,
    on_wire=False,
)
"""Shorter, worse, and cheaper: documents are not made to bytes and back."""


@pytest.mark.parametrize("first", range(1, 31, 10))
def test_every_invariant_holds_in_squalls(first):
    outcomes = [simulate(SQUALL, seed, 12).outcome for seed in range(first, first + 10)]
    assert sum(one.kills for one in outcomes) > 0
    assert {one.status for one in outcomes} <= {"succeeded", "rolled_back", "aborted"}


def test_a_storm_on_the_wire():
    outcome = simulate(STORM, 10, 20).outcome
    assert outcome.kills > 0
    assert outcome.rollouts > 1


_TRACE = """
import sys
from pathlib import Path
from simulations.fleet.run import simulate
from tests.simulations.fleet.test_storm import SQUALL
simulate(SQUALL, 3, 12, trace=Path(sys.argv[1]))
"""


def test_a_seed_replays_byte_for_byte_whatever_the_hash_seed(tmp_path):
    paths = [tmp_path / "one.jsonl", tmp_path / "two.jsonl"]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _TRACE, str(path)],
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for path, seed in zip(paths, ("1", "4242"), strict=True)
    ]
    assert [one.wait(60) for one in running] == [0, 0]
    first, second = (path.read_bytes() for path in paths)
    assert first.count(b"\n") > 500
    assert first == second


def test_another_seed_is_another_run():
    first, second = (simulate(SQUALL, seed, 12).outcome for seed in (1, 2))
    assert replace(first, wall_s=0, seed=0) != replace(second, wall_s=0, seed=0)


def test_a_fleet_that_does_not_come_to_rest_is_named():
    endless = replace(SQUALL, storm=Storm(lasts_s=1e6), horizon_s=1 * HOUR)
    with pytest.raises(Broken):
        simulate(endless, 1, 12)
