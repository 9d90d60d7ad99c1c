"""What is new in a cumulative report, and what is not believed."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from cloud.monitoring.drift.counting import Doubt, count
from cloud.monitoring.drift.reference import MISSING, SAMPLES
from tests.cloud.monitoring.drift.field import Device, reference

REFERENCE = reference()


def told(meter, report, now=0.0):
    return count(meter, report, REFERENCE, now)


def begun(samples=100):
    device = Device("a")
    device.sees(samples)
    meter, counted = told(None, device.report())
    assert counted.increment is not None
    assert counted.increment.samples == samples
    return device, meter


def test_a_report_counts_what_is_new_in_it():
    device, meter = begun()
    device.sees(30)
    _, counted = told(meter, device.report(), 30)
    assert counted.increment.samples == 30
    assert int(counted.increment.row[: REFERENCE.features[0].end].sum()) == 30


def test_the_same_report_twice_counts_once():
    device, meter = begun()
    device.sees(30)
    report = device.report()
    meter, _ = told(meter, report, 30)
    _, counted = told(meter, report, 31)
    assert counted.increment is None
    assert counted.doubts == [Doubt.OLD]


def test_a_late_report_of_a_life_that_is_over_counts_nothing():
    device, meter = begun()
    device.sees(10)
    late = device.report()
    device.restarts()
    device.sees(20)
    meter, counted = told(meter, device.report(), 30)
    assert counted.increment.samples == 20
    assert told(meter, late, 31)[1].doubts == [Doubt.OLD]


def test_a_lost_report_is_made_up_for_by_the_next():
    device, meter = begun()
    device.sees(10)
    device.report()
    device.sees(10)
    assert told(meter, device.report(), 60)[1].increment.samples == 20


def test_a_new_tally_begins_at_nothing():
    device, meter = begun(100)
    device.swaps("1.0.0")
    device.sees(60)
    assert told(meter, device.report(), 30)[1].increment.samples == 60


def test_a_first_report_of_a_device_that_has_been_up_for_long_is_no_news():
    device = Device("a")
    device.sees(100)
    meter, counted = told(None, device.report(uptime_s=4000.0))
    assert counted.increment is None
    device.sees(5)
    assert told(meter, device.report(uptime_s=4030.0), 30)[1].increment.samples == 5


def test_a_clock_that_is_set_back_keeps_out_no_report():
    device, meter = begun()
    for now in (100_000.0, 10.0, 40.0):
        device.sees(30)
        meter, counted = told(meter, device.report(), now)
        assert counted.increment.samples == 30


def test_counts_that_fall_within_a_tally_are_no_counts():
    device, meter = begun(100)
    device.samples -= 50
    device.looked -= 50
    _, counted = told(meter, device.report(), 30)
    assert counted.increment is None
    assert counted.doubts == [Doubt.FELL]


def test_bins_that_fall_while_samples_rise_contradict():
    device, meter = begun(100)
    device.sees(10)
    device.counts[0][:] = 0
    assert told(meter, device.report(), 30)[1].doubts == [Doubt.CONTRADICTS]


def test_more_in_the_bins_than_there_were_samples_is_not_believed():
    device, meter = begun()
    device.sees(10)
    device.counts[0][0] += 50
    assert told(meter, device.report(), 30)[1].doubts == [Doubt.CONTRADICTS]


def test_more_missing_than_looked_at_is_not_believed():
    device, meter = begun()
    device.sees(10)
    device.looked, device.missing = 105, 8
    assert told(meter, device.report(), 30)[1].doubts == [Doubt.CONTRADICTS]


def test_more_samples_than_a_device_can_do_are_counted_as_those_that_it_can():
    device, meter = begun()
    device.samples += 10_000_000
    _, counted = told(meter, device.report(), 1.0)
    assert counted.doubts == [Doubt.RATE]
    assert 5990 <= counted.increment.samples <= 6000  # 5,000 a second and a burst


def test_more_than_counters_can_hold_is_not_counted():
    device, meter = begun()
    device.samples += 1 << 40
    _, counted = told(meter, device.report(), 1e9)
    assert counted.increment is None
    assert counted.doubts == [Doubt.RATE]


def test_a_sketch_of_another_schema_is_refused_and_its_samples_count():
    device, meter = begun()
    device.sees(30)
    _, counted = told(meter, device.report(hash_="0" * 16), 30)
    assert Doubt.SCHEMA in counted.doubts


def test_a_device_of_another_schema_from_the_beginning_counts_samples_alone():
    device = Device("a")
    device.sees(30)
    _, counted = told(None, device.report(hash_="0" * 16))
    assert counted.doubts == [Doubt.SCHEMA]
    assert counted.increment.samples == 30
    assert not counted.increment.row[:-5].any()


def test_another_number_of_bins_is_another_schema():
    device = Device("a")
    device.sees(30)
    report = device.report()
    sketches = report.sketches.model_copy(
        update={"counts": {**report.sketches.counts, "input_mean": (1, 2)}}
    )
    _, counted = told(None, report.model_copy(update={"sketches": sketches}))
    assert counted.doubts == [Doubt.SCHEMA]


def test_answers_that_come_after_their_samples_count():
    device, meter = begun()
    device.is_audited(0.1, 90, 0, 0)
    meter, _ = told(meter, device.report(), 30)
    device.strata[0.1][1:] = [9, 9, 1]
    device.answered = device.audit_answered = 9
    device.disagreed = device.audit_disagreed = 1
    (audits,) = told(meter, device.report(), 60)[1].increment.audits
    assert (audits.confident, audits.answered, audits.disagreed) == (0, 9, 1)


def test_of_escalated_samples_no_more_are_answered_than_there_were():
    device, meter = begun()
    device.sees(40)
    device.escalated = 4
    device.answered = device.disagreed = 2000
    meter, counted = told(meter, device.report(), 30)
    new = counted.increment
    assert (new.escalated, new.escalated_answered, new.escalated_disagreed) == (4, 4, 4)
    device.answered = device.disagreed = 4000
    assert told(meter, device.report(), 60)[1].increment is None


def test_answers_to_escalated_samples_count_in_whichever_report_they_come():
    device, meter = begun()
    device.sees(40)
    device.escalated = 6
    meter, _ = told(meter, device.report(), 30)
    device.answered, device.disagreed = 6, 2
    new = told(meter, device.report(), 60)[1].increment
    assert (new.escalated, new.escalated_answered, new.escalated_disagreed) == (0, 6, 2)


def test_a_share_that_stands_twice_is_not_believed():
    device, meter = begun()
    device.sees(10)
    device.is_audited(0.1, 5, 1, 0)
    report = device.report()
    tally = report.tally.model_copy(update={"strata": report.tally.strata * 2})
    assert told(meter, report.model_copy(update={"tally": tally}), 30)[1].doubts == [Doubt.FELL]


def test_counters_beyond_32_bits_go_on():
    device, meter = begun()
    device.samples = device.looked = (1 << 32) - 5
    device.counts[0][3] = (1 << 32) - 5
    meter = dataclasses.replace(
        meter, samples=device.samples, row=REFERENCE.row(device.report().sketches)
    )
    meter.row[SAMPLES] = device.samples
    meter.row[-2] = device.looked
    device.sees(20)
    _, counted = told(meter, device.report(), 30)
    assert counted.increment.samples == 20
    assert counted.increment.row[MISSING] == 0


@given(st.lists(st.integers(0, 9), max_size=30))
def test_whatever_the_order_and_the_copies_never_more_than_there_was(order):
    device = Device("a")
    reports = []
    for _ in range(10):
        device.sees(7)
        reports.append(device.report())
    meter, total = None, 0
    for number, place in enumerate(order):
        meter, counted = told(meter, reports[place], number * 30.0)
        total += counted.increment.samples if counted.increment else 0
    assert total == 7 * (max(order) + 1 if order else 0)
