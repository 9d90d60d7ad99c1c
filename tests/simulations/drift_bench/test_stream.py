"""A stream is looked at to its end, whatever has been named by then."""

import pytest

from cloud.monitoring.drift.documents import Kind
from cloud.monitoring.drift.settings import DriftSettings
from simulations.drift_bench.fleet import DEVICES
from simulations.drift_bench.material import Material
from simulations.drift_bench.stream import AFTER, SAMPLES, Stream, run
from simulations.drift_bench.verdict import Outcome

SETTINGS = DriftSettings()


@pytest.fixture(scope="module")
def half(material: Material) -> Outcome:
    """Of blur answers speak first, and inputs later."""
    return run(Stream("blur 1.0", "half the fleet", 1), material, SETTINGS)


def test_each_group_that_drifts_is_named_within_what_it_reports(half: Outcome) -> None:
    assert len(half.delays) == 2
    for delay in half.delays:
        assert delay is not None
        assert 0 < delay < AFTER * SAMPLES * DEVICES


def test_what_is_said_after_the_first_naming_is_heard(half: Outcome) -> None:
    named = {one.scope.name for one in half.right if one.scope.kind == "group"}
    assert named == {"site-0", "site-1"}
    opened = [one.opened_at for one in half.right]
    assert max(opened) > min(opened)


def test_the_same_seed_says_the_same(material: Material, half: Outcome) -> None:
    assert run(Stream("blur 1.0", "half the fleet", 1), material, SETTINGS) == half
    other = run(Stream("blur 1.0", "half the fleet", 2), material, SETTINGS)
    assert other.delays != half.delays


def test_settings_that_see_drift_everywhere_give_false_alarms(material: Material) -> None:
    jumpy = SETTINGS.model_copy(
        update={"input_psi": 0.01, "confidence_psi": 0.01, "false_alarms_per_day": 1.0}
    )
    found = run(Stream("camera fault", "a device", 1), material, jumpy)
    assert {one.kind for one in found.wrong} & {Kind.INPUT, Kind.ANSWER}
