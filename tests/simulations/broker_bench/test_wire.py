import pytest

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.codec.packets import Version
from cloud.broker.codec.parser import Parser
from simulations.broker_bench.wire import Ring, Shape, acknowledged, pubacks_for, topic

SIZES = (0, 100, 1_024, 65_536)


def published(ring: Ring, *counts: int) -> list[p.Packet]:
    parser = Parser(1_048_576, Version.V5)
    return [
        packet
        for count in counts
        for part in ring.take(count)
        for packet in parser.feed(bytes(part))
    ]


@pytest.mark.parametrize("size", SIZES)
def test_a_ring_gives_qos_1_messages_whose_ids_come_round_in_order(size: int) -> None:
    payload = bytes(size)
    found = published(Ring(topic(7), payload, 5), 3, 5, 4)
    assert [one.packet_id for one in found if isinstance(one, p.Publish)] == [
        1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2,
    ]  # fmt: skip
    assert {(one.topic, one.payload, one.qos) for one in found if isinstance(one, p.Publish)} == {
        (topic(7), payload, 1)
    }


@pytest.mark.parametrize("size", SIZES)
def test_messages_are_acknowledged_one_by_one_and_what_is_not_whole_is_left(size: int) -> None:
    sent = b"".join(encode(p.Publish(topic(3), bytes(size), 1, packet_id=at)) for at in (9, 65_535))
    buffer = bytearray(sent + sent[:20])
    expected = encode(p.Puback(9)) + encode(p.Puback(65_535))
    shape = Shape.of(size)
    assert shape.packet_bytes == len(sent) // 2
    assert pubacks_for(buffer, 2, shape) == expected


def test_a_message_of_another_kind_or_size_is_an_error() -> None:
    good = encode(p.Publish(topic(3), bytes(100), 1, packet_id=9))
    again = encode(p.Publish(topic(3), bytes(100), 1, dup=True, packet_id=9))
    longer = encode(p.Publish(topic(3), bytes(101), 1, packet_id=9))
    for wrong in (good + again, longer + good):
        with pytest.raises(ValueError, match="not a row"):
            pubacks_for(bytearray(wrong), 2, Shape.of(100))


def test_acknowledgements_are_counted_and_errors_told_from_warnings() -> None:
    plain = encode(p.Puback(1)) + encode(p.Puback(2))
    assert (acknowledged(plain).count, acknowledged(plain).refused) == (2, 0)
    mixed = encode(p.Puback(1, 0x97)) + encode(p.Puback(2, 0x10)) + encode(p.Puback(3))
    found = acknowledged(mixed + b"\x40")
    assert (found.count, found.refused, found.used_bytes) == (3, 1, len(mixed))


def test_four_bytes_of_a_refusal_are_no_plain_acknowledgement() -> None:
    refused = encode(p.Puback(7, 0x97))
    assert acknowledged(refused[:4]).used_bytes == 0
    assert acknowledged(refused).refused == 1


def test_anything_but_an_acknowledgement_is_an_error() -> None:
    with pytest.raises(ValueError, match="not a PUBACK"):
        acknowledged(encode(p.Disconnect(0x8B)))
