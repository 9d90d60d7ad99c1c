"""Reports wait in order, one of each life and version, and none where there is no room."""

from cloud.fleet.drift.pending import LIVES_MAX, Pending, Waiting
from tests.cloud.monitoring.drift.field import Device


def names(taken):
    return [(one.device, one.report.boot[-1:], one.report.sequence) for one in taken]


def reported(device, at=0.0):
    return Waiting(device.name, device.report(), at)


def test_the_newest_report_of_a_life_waits_and_those_of_another_one_with_it():
    pending, device = Pending(10), Device("a")
    assert all(pending.add(reported(device, at)) for at in range(3))
    device.restarts()
    assert all(pending.add(reported(device, at)) for at in range(3, 5))
    device.swaps("2.0.0")
    assert pending.add(reported(device, 5.0))
    assert len(pending) == 3
    taken = pending.take()
    assert names(taken) == [("a", "1", 3), ("a", "2", 2), ("a", "2", 3)]
    assert [one.at for one in taken] == [2.0, 4.0, 5.0]
    assert (len(pending), pending.take()) == (0, [])


def test_a_report_that_comes_late_or_twice_takes_no_newer_one_s_place():
    pending, device = Pending(10), Device("a")
    late, newest = reported(device, 2.0), reported(device, 1.0)
    copy = Waiting(newest.device, newest.report, 3.0)
    assert all(pending.add(one) for one in (newest, late, copy))
    assert pending.take() == [newest]


def test_what_could_not_be_looked_at_waits_before_what_came_since():
    pending, device, other = Pending(10), Device("a"), Device("b")
    pending.add(reported(device))
    taken = pending.take()
    pending.add(reported(device))
    device.restarts()
    pending.add(reported(device))
    pending.add(reported(other))
    assert pending.put_back(taken) == 0
    assert names(pending.take()) == [("a", "1", 2), ("a", "2", 1), ("b", "1", 1)]


def test_a_device_for_which_there_is_no_room_waits_not():
    pending, device, other = Pending(1), Device("a"), Device("b")
    assert pending.add(reported(device))
    assert not pending.add(reported(other))
    assert pending.add(reported(device))
    assert names(pending.take()) == [("a", "1", 2)]


def test_where_there_is_no_room_a_device_s_next_life_takes_that_of_its_oldest():
    pending, device = Pending(1), Device("a")
    pending.add(reported(device))
    device.restarts()
    assert not pending.add(reported(device))
    assert names(pending.take()) == [("a", "2", 1)]


def test_a_device_that_restarts_all_the_time_leaves_room_to_the_others():
    pending, device = Pending(100), Device("a")
    lost = 0
    for _ in range(50):
        lost += not pending.add(reported(device))
        device.restarts()
    assert (len(pending), lost) == (LIVES_MAX, 50 - LIVES_MAX)
    assert pending.add(reported(Device("b")))
