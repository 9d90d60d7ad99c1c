"""The estimate is unbiased, and its interval covers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.monitoring.drift.accuracy import AuditWindow, Strata, estimate
from cloud.monitoring.drift.counting import Audits, Increment
from cloud.monitoring.drift.reference import EXTRAS

RUNS = 1000


def drawn(rng, strata, escalated):
    """What is reported, and the true share of right answers."""
    found, wrong_all = Strata(), 0
    for share, count, rate in strata:
        wrong = rng.binomial(count, rate)
        audits = rng.binomial(count, share)
        seen = rng.hypergeometric(wrong, count - wrong, audits) if audits else 0
        found.add([Audits(share, count, int(audits), int(seen))], (0, 0, 0))
        wrong_all += wrong
    count, rate = escalated
    wrong = rng.binomial(count, rate)
    found.add((), (count, count, int(wrong)))
    total = sum(one[1] for one in strata) + count
    return found, 1 - (wrong_all + wrong) / total


@pytest.mark.parametrize(
    ("strata", "escalated"),
    [
        ([(0.02, 5000, 0.03)], (800, 0.3)),
        ([(0.02, 2000, 0.005)], (100, 0.1)),
        ([(0.05, 4000, 0.9)], (200, 0.8)),
        ([(0.01, 1000, 0.02), (0.05, 500, 0.02), (0.5, 200, 0.9)], (500, 0.5)),
    ],
)
def test_the_interval_covers_and_the_estimate_is_unbiased(strata, escalated):
    rng = np.random.default_rng(5)
    covered, errors = 0, []
    for _ in range(RUNS):
        found, true = drawn(rng, strata, escalated)
        got = estimate(found)
        if got is None:
            continue
        covered += got.low <= true <= got.high
        errors.append(got.estimate - true)
    assert covered / len(errors) >= 0.95
    assert abs(np.mean(errors)) < 4 * np.std(errors) / np.sqrt(len(errors)) + 1e-3


def test_a_window_that_is_audited_more_often_does_not_weigh_more():
    found = Strata()
    found.add([Audits(0.02, 10_000, 200, 2), Audits(0.5, 400, 200, 160)], (0, 0, 0))
    got = estimate(found)
    assert got.estimate == pytest.approx((10_000 * 0.99 + 400 * 0.2) / 10_400, abs=1e-9)


def test_without_audits_there_is_no_estimate():
    found = Strata()
    found.add([Audits(0.02, 500, 0, 0)], (50, 50, 10))
    assert estimate(found) is None
    assert estimate(Strata()) is None


def test_few_audits_make_it_wide():
    few, many = Strata(), Strata()
    few.add([Audits(0.02, 500, 5, 0)], (0, 0, 0))
    many.add([Audits(0.02, 50_000, 500, 0)], (0, 0, 0))
    assert estimate(few).high - estimate(few).low > 0.4
    assert estimate(many).high - estimate(many).low < 0.02


def test_shares_beyond_those_that_there_is_room_for_join_the_nearest():
    found = Strata()
    for at in range(30):
        found.add([Audits(at / 30, 10, 2, 1)], (0, 0, 0))
    assert len(found.confident) == 8
    assert found.audits == 60


def increment(answered, disagreed):
    audits = (Audits(0.1, answered * 10, answered, disagreed),)
    return Increment(np.zeros(EXTRAS, np.uint32), audits)


def test_a_device_has_no_more_than_its_part_of_a_group_s_audits():
    window = AuditWindow(400)
    window.add("liar", increment(10_000, 10_000), 6)
    for at in range(5):
        window.add(f"d{at}", increment(20, 0), 6)
    assert estimate(window.total()).estimate >= 0.8


def test_a_device_that_claims_many_samples_does_not_weigh_as_all_of_them():
    window = AuditWindow(400)
    for _ in range(3):
        for at in range(5):
            window.add(f"d{at}", increment(5, 0), 6)
        huge = Increment(np.zeros(EXTRAS, np.uint32), (Audits(0.1, 150_000, 1, 1),))
        window.add("liar", huge, 6)
    assert estimate(window.total()).estimate >= 0.5


def escalated(count, answered, disagreed):
    audits = (Audits(0.1, 40, 4, 0),)
    return Increment(np.zeros(EXTRAS, np.uint32), audits, count, answered, disagreed)


def test_a_device_that_has_its_escalated_samples_answered_at_once_and_late_is_not_all_answers():
    """So late that the samples have left."""
    window = AuditWindow(400)
    for turn in range(40):
        for at in range(20):
            window.add(f"d{at}", escalated(8, 8, 0), 20)
        late = 16 * 30 if turn == 30 else 0
        window.add("liar", escalated(16 * (turn < 30), late, late), 20)
        assert estimate(window.total()).estimate >= 0.95


def test_a_stratum_weighs_by_its_samples_and_not_by_its_answers():
    found = Strata()
    found.add([Audits(0.1, 90, 9, 0)], (10, 1000, 1000))
    assert estimate(found).estimate == pytest.approx(0.9)
    found = Strata()
    found.add([Audits(0.1, 0, 9, 0)], (0, 0, 0))
    assert estimate(found) is None


def test_a_device_alone_counts_whatever_it_has():
    window = AuditWindow(400)
    for _ in range(100):
        window.add("d0", increment(5, 1), 1)
    assert estimate(window.total()).audits >= 300


def test_old_audits_leave():
    window = AuditWindow(400)
    for _ in range(40):
        for at in range(6):
            window.add(f"d{at}", increment(10, 10), 6)
    for _ in range(40):
        for at in range(6):
            window.add(f"d{at}", increment(10, 0), 6)
    assert estimate(window.total()).estimate == 1.0
    assert estimate(window.total()).audits <= 500


@pytest.mark.parametrize(("devices", "active"), [(2, 1), (3, 2), (4, 3), (5, 4), (6, 4), (20, 4)])
def test_devices_that_have_fallen_silent_do_not_hold_up_the_others(devices, active):
    window = AuditWindow(400)
    for _ in range(30):
        for at in range(devices):
            window.add(f"d{at}", increment(20, 0), devices)
    assert estimate(window.total()).estimate == 1.0
    for _ in range(60):
        for at in range(active):
            window.add(f"d{at}", increment(20, 20), devices)
    assert estimate(window.total()).estimate <= 0.5


@pytest.mark.parametrize("devices", [2, 6, 20])
def test_devices_that_were_never_heard_do_not_hold_up_the_others(devices):
    window = AuditWindow(400)
    for disagreed in (0, 10):
        for _ in range(60):
            window.add("d0", increment(10, disagreed), devices)
    assert estimate(window.total()).estimate == 0.0
    assert estimate(window.total()).audits >= 400 / min(devices, 5)


def test_the_slowest_device_does_not_set_the_pace():
    window = AuditWindow(400)
    for turn in range(120):
        for at in range(6):
            if at or turn % 40 == 0:
                window.add(f"d{at}", increment(5, 5 * (turn >= 60)), 6)
    assert estimate(window.total()).estimate <= 0.05


def test_a_device_that_floods_replaces_nothing_but_its_own():
    window = AuditWindow(400)
    for at in range(5):
        window.add(f"d{at}", increment(20, 0), 6)
    for _ in range(100):
        window.add("liar", increment(500, 500), 6)
    assert estimate(window.total()).estimate >= 0.8


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 300)), min_size=1, max_size=200))
def test_a_group_s_audits_are_bounded_and_those_who_leave_take_theirs_along(reports):
    window = AuditWindow(400)
    for device, answered in reports:
        window.add(f"d{device}", increment(answered, 0), 9)
    assert window.total().audits <= 400 + 80
    for one in range(9):
        window.forget(f"d{one}")
    assert window.total().samples == 0


def test_without_each_device_is_what_the_others_come_to():
    window = AuditWindow(400)
    for device, (answered, disagreed) in enumerate([(8, 0), (8, 1), (8, 8)]):
        window.add(f"d{device}", increment(answered, disagreed), 3)
    disagreed = [one.confident[0.1][2] for one in window.without_each()]
    assert sorted(disagreed) == [1, 8, 9]
    assert window.total().confident[0.1][1:] == (24, 9)
    assert list(AuditWindow(400).without_each()) == []


@given(
    st.integers(10, 60),
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 300), st.integers(0, 30), st.integers(1, 9)),
        max_size=60,
    ),
)  # fmt: skip
def test_slices_are_bounded_and_as_new_once_all_have_left(kept, reports):
    """However many devices the group has meanwhile."""
    window = AuditWindow(kept)
    for device, answered, others, devices in reports:
        audits = (Audits(0.1, answered * 10, answered, 0),)
        new = Increment(np.zeros(EXTRAS, np.uint32), audits, others, others, 0)
        window.add(f"d{device}", new, devices)
        assert len(window) <= kept + 1
    for one in range(9):
        window.forget(f"d{one}")
    assert len(window) == 0
    for number in range(2 * kept):
        window.add(f"d{number % 5}", increment(1, 0), 5)
    assert kept - 1e-6 <= window.total().audits <= kept + kept / 5


def test_what_nobody_answers_begins_no_slice():
    """The cloud is away, or nothing is audited."""
    window = AuditWindow(40)
    for _ in range(5):
        for at in range(1000):
            window.add(f"d{at}", increment(0, 0), 1000)
        assert len(window) == 0
    for _ in range(2):
        for at in range(1000):
            window.add(f"d{at}", increment(1, 0), 1000)
        assert len(window) == 40
    assert window.total().audits == 40


def test_what_was_said_before_anything_was_answered_counts_once_something_is():
    window = AuditWindow(400)
    for at in range(5):
        for _ in range(9):
            silent = (Audits(0.02, 10, 0, 0), Audits(0.5, 1, 0, 0))
            window.add(f"d{at}", Increment(np.zeros(EXTRAS, np.uint32), silent), 5)
        window.add(f"d{at}", increment(1, 0), 5)
    assert {share: one[0] for share, one in window.total().confident.items()} == {
        0.02: 450, 0.5: 45, 0.1: 50,
    }  # fmt: skip


def test_a_device_that_is_sure_of_nothing_counts_by_its_escalated_samples():
    window = AuditWindow(400)
    for _ in range(10):
        window.add("sure", increment(4, 0), 2)
        unsure = Increment(np.zeros(EXTRAS, np.uint32), (), 40, 40, 40)
        window.add("unsure", unsure, 2)
    assert estimate(window.total()).estimate == pytest.approx(0.5)
