"""By the examples of Kubernetes' own page where it has them."""

import pytest

from simulations.autoscale_replay.threshold import Cpu, Threshold


def threshold(wanted: int) -> Threshold:
    return Threshold(1, 100, wanted)


@pytest.mark.parametrize(
    ("utilisation", "wanted"), [(0.7, 4), (0.76, 4), (0.64, 4), (0.78, 5), (1.0, 6)]
)
def test_up_by_the_ratio_outside_of_the_tolerance(utilisation: float, wanted: int) -> None:
    scaler = threshold(4)
    scaler.look(Cpu(0, utilisation, 4, 0))
    assert scaler.wanted == wanted


def test_up_by_100_percent_or_4_at_most() -> None:
    scaler = Threshold(1, 100, 2, target=0.1)
    scaler.look(Cpu(0, 1.0, 2, 0))
    assert scaler.wanted == 6
    scaler.look(Cpu(15, 1.0, 6, 0))
    assert scaler.wanted == 12


def test_those_that_start_count_as_idle() -> None:
    scaler = threshold(6)
    scaler.look(Cpu(0, 1.0, 4, 2))  # 4 / 6 of 0.7 is within the tolerance
    assert scaler.wanted == 6
    scaler.look(Cpu(5, 0.8, 2, 4))  # and nobody goes because of them
    assert scaler.wanted == 6
    scaler.look(Cpu(15, 1.0, 4, 1))
    assert scaler.wanted == 6  # 0.8 of 0.7: up to ceil(1.14 * 5)


def test_down_to_the_largest_wish_of_five_minutes() -> None:
    scaler = threshold(10)
    scaler.look(Cpu(0, 0.6, 10, 0))
    for second in range(15, 301, 15):
        scaler.look(Cpu(second, 0.1, 10, 0))
        assert scaler.wanted == 9
    scaler.look(Cpu(315, 0.1, 10, 0))
    assert scaler.wanted == 2


def test_the_bounds_hold() -> None:
    scaler = Threshold(3, 5, 4)
    scaler.look(Cpu(0, 1.0, 4, 0))
    assert scaler.wanted == 5
    for second in (301, 602):
        scaler.look(Cpu(second, 0.0, 5, 0))
    assert scaler.wanted == 3


def test_with_nobody_ready_nothing_is_known() -> None:
    scaler = threshold(2)
    scaler.look(Cpu(0, 0.0, 0, 2))
    assert scaler.wanted == 2
