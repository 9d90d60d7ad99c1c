"""A short storm passes; with a fault in the broker the check that it is for fails."""

from pathlib import Path

import pytest

from simulations.broker_chaos.broker_process import free_port
from simulations.broker_chaos.plan import Plan
from simulations.broker_chaos.sabotage import FAULTS, FOUND_BY
from simulations.broker_chaos.storm import Result, Storm, Weather


def storm(folder: Path, weather: Weather) -> Result:
    return Storm(Plan(free_port(), str(folder), seed=5, pace=3.0), weather).run()


def test_a_short_storm_passes(tmp_path: Path) -> None:
    weather = Weather(seconds=12, broker_kill_s=4, client_kill_s=5)
    result = storm(tmp_path, weather)
    assert [words for one in result.verdicts for words in one.wrong[:3]] == []
    assert result.figures["broker_kills"] >= 1
    assert result.figures["client_kills"] >= 1
    idle = [one.name for one in result.verdicts if not one.looked_at]
    assert [name for name in idle if not name.startswith("slow reader")] == []


KILLS = {"acknowledge_early": 5.0}
"""Seconds between kills of the broker where the fault needs them."""


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, tmp_path: Path) -> None:
    weather = Weather(
        seconds=14, broker_kill_s=KILLS.get(fault, 0), client_kill_s=6, drain_s_max=12,
        module=("simulations.broker_chaos.sabotage", fault),
    )  # fmt: skip
    wrong = {one.name for one in storm(tmp_path, weather).verdicts if one.wrong}
    missed = {want for want in FOUND_BY[fault] if not any(name.startswith(want) for name in wrong)}
    assert not missed, f"failed: {sorted(wrong)}"
