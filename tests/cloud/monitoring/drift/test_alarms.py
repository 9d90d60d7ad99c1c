"""When alarms open and close, and what chance they have of being wrong."""

import pytest

from cloud.monitoring.drift.alarms import Gauge, Reading, Turn, spent, step
from cloud.monitoring.drift.settings import DriftSettings

SETTINGS = DriftSettings()
OVER, GONE, BETWEEN = Reading(is_over=True), Reading(is_gone=True), Reading()


def turns(*readings):
    gauge, found = Gauge(), []
    for reading in readings:
        gauge, turn = step(gauge, reading, SETTINGS)
        found.append(turn)
    return found


def test_it_opens_at_the_second_look_in_a_row():
    assert turns(OVER, OVER) == [None, Turn.OPENS]
    assert turns(OVER, BETWEEN, OVER) == [None, None, None]


def test_what_is_overwhelming_opens_at_once():
    assert turns(Reading(is_over=True, is_overwhelming=True)) == [Turn.OPENS]


def test_it_opens_once_and_closes_only_after_looks_that_find_it_gone():
    opened = [OVER, OVER]
    assert turns(*opened, OVER, OVER).count(Turn.OPENS) == 1
    assert turns(*opened, GONE, GONE, GONE, GONE)[-1] is Turn.CLOSES
    assert Turn.CLOSES not in turns(*opened, GONE, GONE, GONE, BETWEEN, GONE, GONE, GONE)
    assert Turn.CLOSES not in turns(*opened, *[BETWEEN] * 20)


@pytest.mark.parametrize("scopes", [1, 10, 100_000])
def test_all_tests_of_a_day_together_spend_what_is_allowed(scopes):
    looks = 86_400 / SETTINGS.look_s
    alpha = spent(SETTINGS, scopes, 7)
    assert alpha * looks * scopes * 7 == pytest.approx(SETTINGS.false_alarms_per_day)
