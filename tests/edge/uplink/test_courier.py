"""Messages of the fleet: one at a time, of each topic the newest."""

from edge.uplink.courier import Courier, Letter


def test_one_at_a_time_first_come_first() -> None:
    courier = Courier()
    one, two = Letter("a", b"1"), Letter("b", b"2")
    assert not courier.put(one)
    assert not courier.put(two)
    assert courier.next() is one
    courier.sent(one)
    assert courier.next() is None  # until it is acknowledged
    courier.settled()
    assert courier.next() is two


def test_the_newest_of_a_topic_takes_the_place_of_one_that_waits() -> None:
    courier = Courier()
    courier.put(Letter("a", b"old"))
    courier.put(Letter("b", b"2"))
    newest = Letter("a", b"new")
    assert courier.put(newest)
    assert courier.next() is newest  # in its turn
    courier.sent(newest)
    courier.settled()
    assert courier.next() == Letter("b", b"2")


def test_one_that_comes_while_its_topic_is_on_the_way_waits() -> None:
    courier = Courier()
    courier.put(Letter("a", b"1"))
    first = courier.next()
    assert first is not None
    courier.put(Letter("a", b"2"))
    courier.sent(first)
    courier.settled()
    assert courier.next() == Letter("a", b"2")
