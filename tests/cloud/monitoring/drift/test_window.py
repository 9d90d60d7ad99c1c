"""Windows: the newest samples, bounded, none of them one device's alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cloud.monitoring.drift.reference import EXTRAS, SAMPLES
from cloud.monitoring.drift.window import DeviceWindow, GroupWindow, fitting

WIDTH = 4 + EXTRAS
LARGEST = 20_000
"""Samples of one report: four times the largest window."""


def row(samples, place=0):
    made = np.zeros(WIDTH, np.uint32)
    made[place] = made[SAMPLES] = samples
    return made


def test_a_device_keeps_the_newest_samples_and_half_as_many_more():
    window = DeviceWindow(WIDTH)
    for _ in range(50):
        window.add(fitting(row(20, 0), LARGEST), 200)
    for _ in range(20):
        window.add(fitting(row(20, 1), LARGEST), 200)
    total = window.total()
    assert 200 <= total[SAMPLES] <= 320
    assert total[0] == 0


def test_the_largest_reports_do_not_overflow():
    window = DeviceWindow(WIDTH)
    for _ in range(10):
        window.add(fitting(row(4_000_000_000), LARGEST), 5000)
    assert window.total()[SAMPLES] == window.total()[0] == 2 * LARGEST


def test_a_group_keeps_the_newest_reports_of_its_devices():
    window = GroupWindow(200)
    for turn in range(30):
        for at in range(10):
            window.add(f"d{at}", fitting(row(10, int(turn >= 20)), LARGEST), 10)
    parts = window.parts(10)
    assert 200 <= parts.samples <= 220
    assert parts.total[0] == 0


def test_a_device_that_floods_has_no_more_than_its_part():
    window = GroupWindow(200)
    for at in range(6):
        window.add(f"d{at}", fitting(row(40, 0), LARGEST), 6)
    for _ in range(100):
        window.add("d0", fitting(row(1000, 1), LARGEST), 6)
    parts = window.parts(6)
    assert len(parts.devices) >= 5
    assert parts.total[1] <= parts.total.sum() / 5
    assert len(window) <= 7


def test_of_two_the_louder_one_is_cut_to_the_quieter():
    window = GroupWindow(200)
    window.add("loud", fitting(row(5000, 1), LARGEST), 2)
    window.add("quiet", fitting(row(150, 0), LARGEST), 2)
    parts = window.parts(2)
    assert parts.total[1] == parts.total[0] == 150


def test_without_each_is_without_each():
    window = GroupWindow(200)
    for at in range(3):
        window.add(f"d{at}", fitting(row(80, at), LARGEST), 3)
    without = window.parts(3).without_each()
    assert [without[at][at] for at in range(3)] == [0, 0, 0]
    assert without.sum(axis=0)[0] == 160


def test_a_device_that_is_forgotten_is_in_no_window():
    window = GroupWindow(200)
    window.add("a", fitting(row(80), LARGEST), 2)
    window.add("b", fitting(row(80), LARGEST), 2)
    window.forget("a")
    assert window.parts(2).devices == ("b",)


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 500)), max_size=150))
def test_a_group_s_window_is_bounded_and_full(reports):
    window = GroupWindow(200)
    for device, samples in reports:
        window.add(f"d{device}", fitting(row(samples), LARGEST), 9)
    assert len(window) <= 9 * 41
    seen = {}
    for device, samples in reports:
        seen[device] = seen.get(device, 0) + samples
    possible = sum(min(samples, 40) for samples in seen.values())
    parts = window.parts(9)
    held = sum(min(float(one[SAMPLES]), 40.0) for one in parts.rows)
    assert held >= min(200, possible) - 1e-6
