"""One client's session: windows, acknowledgements, bounds, resumption."""

import pytest

from cloud.broker.codec.topics import Shared
from cloud.broker.session.inflight import Budget, Inflight
from cloud.broker.session.messages import Delivery, Drop, Message
from cloud.broker.session.session import Session

PLENTY = 1 << 20


class Wire:
    """A link that only counts."""

    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1

    def take_over(self, now: float) -> None:
        raise AssertionError(now)


def delivery(
    payload: bytes = b"x", qos: int = 1, expires_at: float | None = None, share: str = ""
) -> Delivery:
    message = Message("t", payload, qos, expires_at=expires_at)  # type: ignore[arg-type]  # 0 to 2
    group = Shared(share, "t") if share else None
    return Delivery(message, message.qos, False, (), group, message.size_bytes)


def session(bytes_max: int = PLENTY, window: int = 10, *, connected: bool = True) -> Session:
    made = Session("c", bytes_max, Budget(PLENTY))
    if connected:
        made.attach(Wire(), window)
    return made


def ids(one: Session, now: float = 0) -> list[tuple[int, bool]]:
    return [(packet_id, dup) for _, packet_id, dup in one.take(now, PLENTY)]


def test_no_more_in_flight_than_the_client_takes() -> None:
    one = session(window=2)
    for _ in range(3):
        one.enqueue(delivery(), 0)
    assert ids(one) == [(1, False), (2, False)]
    assert not one.has_more()
    assert one.acknowledge(1)
    assert one.has_more()
    assert ids(one) == [(3, False)]


def test_qos_0_does_not_wait_for_the_window() -> None:
    one = session(window=1)
    for qos in (1, 1, 0):
        one.enqueue(delivery(qos=qos), 0)
    assert sorted(ids(one)) == [(0, False), (1, False)]


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    one = session(bytes_max=2 * delivery().size_bytes)
    assert [one.enqueue(delivery(), 0) for _ in range(3)] == [True, True, False]
    assert one.dropped == {Drop.QUEUE_FULL: 1}
    assert len(ids(one)) == 2
    assert not one.enqueue(delivery(), 0)  # what is in flight still counts
    one.acknowledge(1)
    assert one.enqueue(delivery(), 0)


def test_the_broker_as_a_whole_is_bounded_too() -> None:
    budget = Budget(3 * delivery().size_bytes)
    one, two = Session("1", PLENTY, budget), Session("2", PLENTY, budget)
    assert [one.enqueue(delivery(), 0), one.enqueue(delivery(), 0)] == [True, True]
    assert [two.enqueue(delivery(), 0), two.enqueue(delivery(), 0)] == [True, False]
    one.end()
    assert two.enqueue(delivery(), 0)
    two.end()
    assert budget.used_bytes == one.held_bytes == two.held_bytes == 0


def test_expired_messages_make_room_and_are_never_sent() -> None:
    one = session(bytes_max=2 * delivery().size_bytes, connected=False)
    one.enqueue(delivery(expires_at=5), 0)
    one.enqueue(delivery(b"y", expires_at=7), 0)
    assert not one.enqueue(delivery(), 4)
    assert one.enqueue(delivery(b"z"), 6)
    one.attach(Wire(), 10)
    assert [send[0].message.payload for send in one.take(8, PLENTY) if send[0]] == [b"z"]
    assert one.dropped == {Drop.QUEUE_FULL: 1, Drop.EXPIRED: 2}


def test_qos_0_is_not_kept_for_later() -> None:
    one = session(connected=False)
    assert not one.enqueue(delivery(qos=0), 0)
    one.attach(Wire(), 1)
    assert one.enqueue(delivery(qos=0), 0)
    one.detach()
    assert one.dropped == {Drop.OFFLINE_QOS_0: 2}
    assert one.held_bytes == 0


def test_a_new_connection_gets_the_unacknowledged_first_and_marked() -> None:
    one = session(window=3)
    for _ in range(4):
        one.enqueue(delivery(), 0)
    ids(one)
    one.acknowledge(2)
    one.detach()
    one.attach(Wire(), 2)
    assert ids(one) == [(1, True), (3, True)]
    assert one.acknowledge(1)
    assert ids(one) == [(4, False)]
    one.detach()
    one.attach(Wire(), 1)  # a smaller window than what is in flight
    assert ids(one) == [(3, True)]
    one.acknowledge(3)
    assert ids(one) == [(4, True)]


def test_qos_2_is_released_and_completed() -> None:
    one = session()
    one.enqueue(delivery(qos=2), 0)
    ids(one)
    assert one.received_by_client(1, 0)
    assert one.held_bytes == 0
    one.detach()
    one.attach(Wire(), 10)
    [release] = one.take(0, PLENTY)
    assert release[:2] == (None, 1)
    assert one.acknowledge(1)
    assert not one.acknowledge(1)
    assert not one.received_by_client(1, 0)


def test_a_pubrec_with_an_error_ends_the_message() -> None:
    one = session()
    one.enqueue(delivery(qos=2), 0)
    ids(one)
    assert not one.received_by_client(1, 0x97)
    assert not one.inflight
    assert one.held_bytes == 0


def test_packet_ids_wrap_around_those_in_use() -> None:
    one = session(window=10)
    one._last_packet_id = 65_534
    one.inflight[1] = _kept()
    for _ in range(2):
        one.enqueue(delivery(), 0)
    assert [packet_id for packet_id, _ in ids(one)] == [65_535, 2]


def _kept() -> Inflight:
    donor = session()
    donor.enqueue(delivery(), 0)
    ids(donor)
    return donor.inflight[1]


@pytest.mark.parametrize("share", [None, Shared("g", "t")])
def test_only_what_may_move_is_handed_over(share: Shared | None) -> None:
    one = session(window=3)
    one.enqueue(delivery(b"own"), 0)
    one.enqueue(delivery(b"sent", share="g"), 0)
    one.enqueue(delivery(b"sent 2", qos=2, share="g"), 0)
    one.enqueue(delivery(b"queued 2", qos=2, share="g"), 0)
    ids(one)
    offered: list[bytes] = []

    def give(each: Delivery) -> bool:
        offered.append(each.message.payload)
        return True

    one.detach()
    one.hand_over(give, share)
    assert offered == [b"sent", b"queued 2"]
    assert one.held_bytes == delivery(b"own").size_bytes + delivery(b"sent 2").size_bytes


def test_what_nobody_takes_comes_again_as_it_was() -> None:
    one = session(window=2)
    for payload in (b"1", b"2", b"3"):
        one.enqueue(delivery(payload, share="g"), 0)
    assert ids(one) == [(1, False), (2, False)]
    held_bytes = one.held_bytes
    one.detach()
    one.hand_over(lambda _: False)
    one.attach(Wire(), 2)
    assert ids(one) == [(1, True), (2, True)], "same identifiers, marked as sent before (4.4.0-1)"
    assert one.held_bytes == one.budget.used_bytes == held_bytes


def test_a_read_takes_about_as_much_as_asked() -> None:
    one = session(window=100)
    for _ in range(10):
        one.enqueue(delivery(bytes(1_000)), 0)
    assert len(one.take(0, 3_000)) == 3
    assert one.has_more()
