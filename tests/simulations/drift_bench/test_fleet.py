"""Cameras report, and looks come, as in production: each at moments of its own."""

from collections import defaultdict
from itertools import pairwise

import pytest

from cloud.monitoring.drift.settings import DriftSettings
from simulations.drift_bench.fleet import DEVICES, GROUPS, REPORT_S, Fleet
from simulations.drift_bench.material import Material

SETTINGS = DriftSettings()


def moments(material: Material, seed: int, seconds: float = 600.0) -> dict[str, list[float]]:
    """By who reports, and of looks; since the beginning."""
    fleet, found = Fleet(material, seed, SETTINGS), defaultdict[str, list[float]](list)
    before = fleet.begins
    for now, camera in fleet.moments(seconds):
        assert before <= now < fleet.begins + seconds
        before = now
        found["look" if camera is None else camera.name].append(now - fleet.begins)
    return found


def test_each_camera_reports_each_half_minute_and_looks_come_twice_as_often(
    material: Material,
) -> None:
    found = moments(material, 1)
    assert len(found) == GROUPS * DEVICES + 1
    for who, at in found.items():
        period_s = SETTINGS.look_s if who == "look" else REPORT_S
        assert [after - one for one, after in pairwise(at)] == [pytest.approx(period_s)] * (
            round(600 / period_s) - 1
        )


def test_no_two_are_in_phase_and_another_seed_has_others(material: Material) -> None:
    firsts = [at[0] for seed in (1, 2) for at in moments(material, seed, 30.0).values()]
    assert len(set(firsts)) == 2 * (GROUPS * DEVICES + 1)
    assert max(firsts) - min(firsts) > REPORT_S / 2


def test_the_same_seed_has_the_same(material: Material) -> None:
    assert moments(material, 3) == moments(material, 3)
    assert Fleet(material, 3, SETTINGS).begins != Fleet(material, 4, SETTINGS).begins
