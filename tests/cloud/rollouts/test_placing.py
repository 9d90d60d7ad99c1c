import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.rollouts.placing import cuts, exponential, in_order


def test_the_order_is_the_same_for_everybody_and_another_for_another_seed():
    devices = [f"d{i}" for i in range(50)]
    assert in_order(devices, "s") == in_order(reversed(devices), "s")
    assert in_order(devices, "s") != in_order(devices, "t")
    assert in_order(devices, "s")[:3] == ["d25", "d0", "d23"]  # as every release has placed them


def test_a_device_less_moves_no_other_ones_past_each_other():
    devices = [f"d{i}" for i in range(50)]
    whole = in_order(devices, "s")
    assert in_order(devices[1:], "s") == [one for one in whole if one != "d0"]


@pytest.mark.parametrize(
    ("devices", "canary", "waves", "expected"),
    [
        (1, 0.05, (1.0,), [1]),
        (20, 0.05, (0.25, 0.5, 1.0), [1, 5, 10, 20]),
        (3, 0.01, (0.1, 0.2, 1.0), [1, 3]),
        (100, 0.07, (0.14, 1.0), [7, 14, 100]),
        (5, 1.0, (1.0,), [5]),
    ],
)
def test_cuts(devices: int, canary: float, waves: tuple[float, ...], expected: list[int]):
    assert cuts(devices, canary, waves) == expected


@given(
    st.integers(1, 10_000),
    st.lists(st.floats(0.0001, 1), min_size=1, max_size=10).map(sorted),
)
def test_cuts_rise_and_end_with_all(devices: int, shares: list[float]):
    found = cuts(devices, shares[0], (*shares[1:], 1.0))
    assert found[0] >= 1
    assert found[-1] == devices
    assert found == sorted(set(found))


def test_exponential_waves():
    assert exponential(0.05) == (0.1, 0.2, 0.4, 0.8, 1.0)
    assert exponential(0.1, 3) == (0.3, 0.9, 1.0)
    assert len(exponential(1e-6)) == 20
    for canary, factor in ((0.0, 2.0), (0.5, 1.0), (math.inf, 2.0)):
        with pytest.raises(ValueError, match="canary"):
            exponential(canary, factor)
