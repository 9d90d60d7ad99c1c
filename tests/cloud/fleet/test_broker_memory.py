"""A broker that forgot is told everything, once, and then asked to remember."""

from cloud.fleet.broker_memory import AGAIN_S, LOOK_S, BrokerMemory


def test_one_that_remembers_is_told_nothing() -> None:
    memory = BrokerMemory()
    memory.connected(100.0)
    memory.seen()
    assert memory.due_s(100.0 + LOOK_S) is None
    assert memory.next_step(100.0 + LOOK_S, is_published=True) is None


def test_one_that_forgot_is_told_everything_and_then_marked() -> None:
    memory = BrokerMemory()
    memory.connected(100.0)
    assert memory.due_s(100.0) == LOOK_S
    assert memory.next_step(100.0, is_published=True) is None  # the own message may still come
    assert memory.next_step(100.0 + LOOK_S, is_published=True) == "all"
    assert memory.next_step(101.0 + LOOK_S, is_published=False) is None
    assert memory.next_step(102.0 + LOOK_S, is_published=True) == "mark"


def test_one_that_denies_the_mark_is_not_told_everything_with_each_connection() -> None:
    memory = BrokerMemory()
    memory.connected(100.0)
    assert memory.next_step(100.0 + LOOK_S, is_published=True) == "all"
    memory.lost()
    assert memory.due_s(105.0) is None
    memory.connected(106.0)
    assert memory.next_step(106.0 + LOOK_S, is_published=True) is None
    assert memory.due_s(106.0 + LOOK_S) == LOOK_S + 100.0 + AGAIN_S - 106.0 - LOOK_S
    assert memory.next_step(100.0 + LOOK_S + AGAIN_S, is_published=True) == "all"


def test_without_a_link_nothing_is_due() -> None:
    memory = BrokerMemory()
    assert memory.due_s(0.0) is None
    assert memory.next_step(1e9, is_published=True) is None
