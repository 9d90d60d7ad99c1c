"""With a fault in the broker the check that it is for fails."""

from pathlib import Path

import pytest

from simulations.broker_chaos.broker_process import free_port
from simulations.broker_chaos.plan import Plan
from simulations.broker_chaos.sabotage import FAULTS, FOUND_BY
from simulations.broker_chaos.storm import Storm, Weather

KILLS = {"acknowledge_early": 5.0}
"""Seconds between kills of the broker where the fault needs them."""


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: str, tmp_path: Path) -> None:
    weather = Weather(
        seconds=14, broker_kill_s=KILLS.get(fault, 0), client_kill_s=6, drain_s_max=25,
        module=("simulations.broker_chaos.sabotage", fault),
    )  # fmt: skip
    plan = Plan(free_port(), str(tmp_path), seed=5, pace=3.0)
    wrong = {one.name for one in Storm(plan, weather).run().verdicts if one.wrong}
    missed = {want for want in FOUND_BY[fault] if not any(name.startswith(want) for name in wrong)}
    assert not missed, f"failed: {sorted(wrong)}"
