"""What waits is the newest of each topic, and one device's flood is its own trouble."""

from cloud.fleet.inbox import Inbox, Waiting


class Room:
    def __init__(self, pending_max: int = 10, per_s: float = 1.0, burst: float = 100.0) -> None:
        self.dropped: list[tuple[str, str]] = []
        self.acked: list[bytes] = []
        self.inbox = Inbox(
            pending_max,
            per_s,
            burst,
            2,
            lambda reason, device: self.dropped.append((reason, device)),
        )

    def put(self, device: str, kind: str, payload: bytes = b"") -> Waiting:
        message = Waiting(device, kind, payload, lambda: self.acked.append(payload))
        self.inbox.put(message)
        return message

    def take(self, now: float = 0.0, count: int = 100) -> list[bytes]:
        return [one.payload for one in self.inbox.take(count, now)]


def test_the_newest_of_a_topic_takes_the_place_of_the_one_that_waits() -> None:
    room = Room()
    room.put("a", "state", b"1")
    room.put("a", "state", b"2")
    assert room.acked == [b"1"]
    assert room.dropped == [("superseded", "a")]
    assert room.take() == [b"2"]
    assert room.acked == [b"1"]  # the newest by whoever stores it


def test_telemetry_is_acknowledged_when_it_comes_and_only_once() -> None:
    room = Room()
    room.put("a", "tel", b"1")
    room.put("a", "tel", b"2")
    assert room.acked == [b"1", b"2"]


def test_what_has_no_room_comes_again() -> None:
    room = Room(pending_max=1)
    room.put("a", "state", b"1")
    room.put("b", "state", b"2")
    room.put("b", "tel", b"3")
    assert room.acked == [b"3"]
    assert room.dropped == [("no_room", "b")] * 2
    assert room.take() == [b"1"]


def test_a_report_over_the_rate_waits_and_telemetry_is_dropped() -> None:
    room = Room(burst=1.0)
    room.put("a", "state", b"1")
    room.put("a", "tel", b"2")
    room.put("a", "reported/model", b"3")
    room.put("b", "state", b"4")
    assert room.take() == [b"1", b"4"]
    assert room.dropped == [("too_fast", "a")]
    assert room.take(now=0.5) == []
    assert room.take(now=1.0) == [b"3"]


def test_rates_of_a_bounded_number_of_devices_are_known() -> None:
    room = Room(burst=1.0)
    for device in "abc":  # the third takes the first one's place
        room.put(device, "state")
    assert len(room.take()) == 3
    room.put("a", "state", b"again")
    assert room.take() == [b"again"]


def test_what_is_put_back_never_replaces_a_newer_one() -> None:
    room = Room()
    one, other = room.put("a", "state", b"1"), room.put("b", "state", b"2")
    room.take()
    room.put("a", "state", b"3")
    room.inbox.put_back(one)
    room.inbox.put_back(other)
    assert room.take() == [b"3", b"2"]
    assert room.acked == [b"1"]


def test_no_more_than_a_batch_is_taken() -> None:
    room = Room()
    for number in range(5):
        room.put(f"d{number}", "state", b"%d" % number)
    assert room.take(count=2) == [b"0", b"1"]
    assert len(room.inbox) == 3
