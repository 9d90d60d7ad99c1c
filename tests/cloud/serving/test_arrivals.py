import pytest

from cloud.serving.arrivals import ArrivalRate


def test_a_steady_rate_is_learnt_whatever_the_size_of_its_parts() -> None:
    for rows, gap_s in ((1, 0.002), (10, 0.02)):
        rate = ArrivalRate(memory_s=0.25)
        for n in range(2_000):
            rate.saw(rows, n * gap_s)
        assert rate.per_s(1_999 * gap_s) == pytest.approx(500, rel=0.05)


def test_it_starts_at_nothing_and_forgets() -> None:
    rate = ArrivalRate(memory_s=0.25)
    assert rate.per_s(100.0) == 0.0
    rate.saw(100, 100.0)
    assert rate.per_s(100.0) == pytest.approx(400)
    assert rate.per_s(100.25) == pytest.approx(400 / 2.71828, rel=1e-3)
    assert rate.per_s(1e6) == 0.0
