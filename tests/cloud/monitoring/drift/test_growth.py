"""What a report or a look costs with many devices and groups: counted in lines of Python, not in seconds."""

import sys

import numpy as np
import pytest

from cloud.monitoring.drift.accuracy import AuditWindow
from cloud.monitoring.drift.counting import Audits, Increment
from cloud.monitoring.drift.reference import EXTRAS, SAMPLES
from cloud.monitoring.drift.window import GroupWindow, fitting
from tests.cloud.monitoring.drift.field import MODEL, Device, Field, reference


def lines(call):
    """So many of drift's own it runs: a garbage collection has callbacks."""
    count = 0

    def line(frame, event, _arg):
        nonlocal count
        if not frame.f_globals["__name__"].startswith("cloud.monitoring.drift"):
            return None
        count += event == "line"
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def audited(devices, answered):
    window = AuditWindow(5000)
    new = Increment(np.zeros(EXTRAS, np.uint32), (Audits(0.1, 10, answered, 0),))
    for at in range(devices):
        window.add(f"d{at}", new, devices)
    return lambda: window.add("d0", new, devices)


def reported(devices, samples):
    window, row = GroupWindow(5000), np.zeros(4 + EXTRAS, np.uint32)
    row[0] = row[SAMPLES] = samples
    for at in range(devices):
        window.add(f"d{at}", fitting(row, 20_000), devices)
    return lambda: window.add("d0", fitting(row, 20_000), devices)


@pytest.mark.parametrize(
    ("window", "each"), [(audited, 0), (audited, 1), (reported, 1), (reported, 3)]
)
def test_a_report_costs_a_group_s_windows_the_same_however_many_devices_it_has(window, each):
    assert lines(window(1000, each)) == lines(window(20, each))


def test_a_device_that_moves_costs_the_same_however_many_groups_are_silent():
    def silent(groups):
        field = Field(dict.fromkeys((f"g{at}" for at in range(groups)), 1))
        field.turns(2)
        for _ in range(20):
            field.now += 30
            field.watch.look(field.now)
        field.watch = type(field.watch).from_record(
            field.watch._settings, field.watch.to_record()
        )  # fmt: skip
        field.watch.know(reference())
        field.watch.look(field.now)
        return lambda: field.watch.move("g0-0", "g0")

    assert lines(silent(50)) == lines(silent(2))


def test_a_group_s_devices_begin_anew_at_the_same_cost_however_many_others_there_are():
    def full(groups):
        field = Field({"lyon": 3})
        for at in range(groups):
            field.watch.feed(f"x{at}", f"g{at % 9}", Device("x").report(), field.now)
        field.turn()
        tracks = field.watch.tracks
        return lambda: tracks.begin_devices_anew((MODEL, "1.0.0"), "lyon")

    assert lines(full(300)) == lines(full(10))


def test_a_look_at_a_fleet_that_drifts_costs_as_much_a_group_however_many_there_are():
    def drifting(groups):
        field = Field(dict.fromkeys((f"g{at}" for at in range(groups)), 2))
        field.turns(2, 100, shifts=dict.fromkeys(field.devices, 3.0))
        for some in field.devices.values():
            for one in some:
                one.swaps("2.0.0")
        field.watch.know(reference("2.0.0"))
        field.turns(2, 100, shifts=dict.fromkeys(field.devices, 3.0))
        for group, some in field.devices.items():
            for one in some:
                one.sees(100, 3.0)
                field.watch.feed(one.name, group, one.report(), field.now + 30)
        return lambda: field.watch.look(field.now + 30)

    assert lines(drifting(80)) / 80 <= 1.1 * lines(drifting(20)) / 20
