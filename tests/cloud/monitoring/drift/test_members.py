"""Which devices of a group drift by themselves, and in what."""

import numpy as np
import pytest

from cloud.monitoring.drift.documents import Kind
from cloud.monitoring.drift.members import of_group
from cloud.monitoring.drift.settings import DriftSettings
from cloud.monitoring.drift.window import GroupWindow, fitting
from tests.cloud.monitoring.drift.field import Device, Field, reference

SETTINGS = DriftSettings()
INPUTS, ANSWERS = frozenset({"input_mean", "input_std"}), frozenset({"confidence"})


def parts(sees):
    """`sees`: of each device the arguments of `Device.sees`."""
    window, ours = GroupWindow(200), reference()
    for at, arguments in enumerate(sees):
        device = Device(f"d{at}")
        device.sees(*arguments)
        report = device.report()
        row = ours.row(report.sketches)
        row[-5:] = device.samples, 0, 0, device.looked, device.missing
        window.add(device.name, fitting(row.astype(np.uint32), 800), len(sees))
    return window.parts(len(sees))


@pytest.mark.parametrize(
    ("seen", "missing", "drifts"), [(9, 1, False), (19, 1, False), (6, 4, True), (36, 4, True)]
)
def test_one_missing_frame_is_no_drift_of_a_device(seen, missing, drifts):
    plain, few = (40,), (seen, 0.0, 1.0, missing)
    found = of_group(reference(), parts([few, plain, plain]), {Kind.MISSING: set()}, SETTINGS)
    assert found.that_drift(Kind.MISSING) == (("d0",) if drifts else ())
    assert found.count == 3


def test_devices_are_named_for_the_kind_in_which_they_drift():
    by_inputs, by_answers, blind = (40, 3.0), (40, 0.0, 0.1), (30, 0.0, 1.0, 10)
    over = {Kind.INPUT: INPUTS, Kind.ANSWER: ANSWERS, Kind.MISSING: frozenset()}
    found = of_group(reference(), parts([by_inputs, by_answers, blind]), over, SETTINGS)
    named = [found.that_drift(kind) for kind in (Kind.INPUT, Kind.ANSWER, Kind.MISSING)]
    assert named == [("d0",), ("d1",), ("d2",)]


def test_an_alarm_of_inputs_names_no_device_that_misses_some():
    field = Field({"lyon": 6})
    field.turns(10)
    changes = []
    for _ in range(6):
        field.devices["lyon"][5].sees(0, missing=3)
        changes += field.turn(10, {f"lyon-{at}": 3.0 for at in range(5)})
    alarm = next(one.alarm for one in changes if one.alarm.scope.kind == "group")
    assert alarm.kind is Kind.INPUT
    assert "lyon-5" not in alarm.devices
