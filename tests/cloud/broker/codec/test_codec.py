"""Bytes to packets and back, and what malformed bytes are answered with."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.broker.codec import fields
from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.codec.packets import Version
from cloud.broker.codec.parser import Parser
from cloud.broker.codec.properties import PropertyId
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from tests.cloud.broker.codec.strategies import packets

BYTES_MAX = 4_096


def parse(data: bytes, version: Version = Version.V5) -> list[p.Packet]:
    return list(Parser(BYTES_MAX, version).feed(data))


@pytest.mark.parametrize("version", list(Version))
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_what_is_encoded_is_decoded(version: Version, data: st.DataObject) -> None:
    packet = data.draw(packets(version))
    assert parse(encode(packet, version), version) == [packet]


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_packets_come_out_the_same_however_the_bytes_are_cut(data: st.DataObject) -> None:
    several = data.draw(st.lists(packets(Version.V5), min_size=1, max_size=5))
    whole = b"".join(encode(one) for one in several)
    parser = Parser(BYTES_MAX, Version.V5)
    got: list[p.Packet] = []
    while whole:
        cut = data.draw(st.integers(1, len(whole)))
        got += parser.feed(whole[:cut])
        whole = whole[cut:]
        versions = [one.version for one in got if isinstance(one, p.Connect)]
        assert all(one is Version.V5 for one in versions)
    assert got == several
    assert not parser.held_bytes


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_shortened_packet_is_never_taken_for_whole(data: st.DataObject) -> None:
    whole = encode(data.draw(packets(Version.V5)))
    if len(whole) > 127:
        return
    cut = data.draw(st.integers(2, len(whole)))
    shorter = bytes((whole[0], cut - 2)) + whole[2:cut]
    try:
        got = parse(shorter)
    except BrokenRule as error:
        assert error.reason >= ReasonCode.UNSPECIFIED_ERROR  # noqa: PT017
    else:
        assert [parse(encode(one)) for one in got] == [[one] for one in got]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(list(Version)))
def test_any_bytes_give_packets_or_our_own_error(data: bytes, version: Version) -> None:
    parser = Parser(BYTES_MAX, version)
    try:
        for packet in parser.feed(data):
            assert packet is not None
    except BrokenRule as error:
        assert error.reason >= ReasonCode.UNSPECIFIED_ERROR  # noqa: PT017
    assert parser.held_bytes <= len(data)


def connect(rest: bytes) -> bytes:
    body = b"\x00\x04MQTT" + rest
    return b"\x10" + bytes((len(body),)) + body


HOSTILE = {
    "packet type 0": (b"\x00\x00", 0x81),
    "PUBREL without its flags": (b"\x60\x02\x00\x01", 0x81),
    "SUBSCRIBE without its flags": (b"\x80\x05\x00\x01\x00\x00\x00", 0x81),
    "PINGREQ with a body": (b"\xc0\x01\x00", 0x81),
    "QoS 3": (b"\x36\x07\x00\x01t\x00\x01\x00x", 0x81),
    "DUP with QoS 0": (b"\x38\x04\x00\x01t\x00", 0x81),
    "length of five bytes": (b"\x30\xff\xff\xff\xff\x01", 0x81),
    "length not in its shortest form": (b"\xc0\x80\x00", 0x81),
    "topic longer than the packet": (b"\x30\x03\x00\x09t", 0x81),
    "no room for a topic length": (b"\x30\x01\x00", 0x81),
    "no room for a packet id": (b"\x32\x03\x00\x01t", 0x81),
    "no property length": (b"\x30\x03\x00\x01t", 0x81),
    "packet id 0": (b"\x32\x06\x00\x01t\x00\x00\x00", 0x82),
    "PUBACK packet id 0": (b"\x40\x02\x00\x00", 0x82),
    "topic not UTF-8": (b"\x30\x05\x00\x02\xc3\x28\x00", 0x81),
    "topic with a surrogate": (b"\x30\x06\x00\x03\xed\xa0\x80\x00", 0x81),
    "topic with U+0000": (b"\x30\x05\x00\x02t\x00\x00", 0x81),
    "topic with +": (b"\x30\x06\x00\x03a/+\x00", 0x90),
    "topic with #": (b"\x30\x06\x00\x03a/#\x00", 0x90),
    "topic of 129 levels": (encode(p.Publish("/" * 128, b"")), 0x90),
    "no topic and no alias": (b"\x30\x03\x00\x00\x00", 0x82),
    "alias 0": (b"\x30\x06\x00\x00\x03\x23\x00\x00", 0x94),
    "property length not in its shortest form": (b"\x30\x06\x00\x01t\x80\x00x", 0x81),
    "filter with U+0000": (b"\x82\x08\x00\x01\x00\x00\x02a\x00\x00", 0x81),
    "property twice": (b"\x30\x08\x00\x01t\x04\x01\x00\x01\x00", 0x82),
    "property of another packet": (b"\x30\x07\x00\x01t\x03\x21\x00\x01", 0x81),
    "unknown property": (b"\x30\x06\x00\x01t\x02\x7f\x00", 0x81),
    "properties longer than the packet": (b"\x30\x05\x00\x01t\x05\x01", 0x81),
    "property cut short": (b"\x30\x06\x00\x01t\x02\x02\x00", 0x81),
    "payload format 2": (b"\x30\x06\x00\x01t\x02\x01\x02", 0x82),
    "SUBSCRIBE without filters": (b"\x82\x03\x00\x01\x00", 0x82),
    "UNSUBSCRIBE without filters": (b"\xa2\x03\x00\x01\x00", 0x82),
    "SUBSCRIBE reserved bits": (b"\x82\x07\x00\x01\x00\x00\x01a\xc0", 0x81),
    "SUBSCRIBE QoS 3": (b"\x82\x07\x00\x01\x00\x00\x01a\x03", 0x82),
    "SUBSCRIBE retain handling 3": (b"\x82\x07\x00\x01\x00\x00\x01a\x30", 0x82),
    "SUBSCRIBE identifier 0": (b"\x82\x09\x00\x01\x02\x0b\x00\x00\x01a\x00", 0x82),
    "CONNECT another protocol": (b"\x10\x0a\x00\x04HTTP\x05\x02\x00\x00", 0x81),
    "CONNECT level 6": (connect(b"\x06\x02\x00\x00\x00\x00\x00"), 0x84),
    "CONNECT version 3.1": (b"\x10\x0e\x00\x06MQIsdp\x03\x02\x00\x00\x00\x00", 0x84),
    "CONNECT reserved flag": (connect(b"\x05\x01\x00\x00\x00\x00\x00"), 0x81),
    "CONNECT will QoS without will": (connect(b"\x05\x08\x00\x00\x00\x00\x00"), 0x81),
    "CONNECT will QoS 3": (
        connect(b"\x05\x1c\x00\x00\x00\x00\x00\x00\x00\x01t\x00\x00"), 0x81,
    ),
    "CONNECT will topic with wildcard": (
        connect(b"\x05\x04\x00\x00\x00\x00\x00\x00\x00\x01#\x00\x00"), 0x90,
    ),
    "CONNECT 3.1.1 password without name": (connect(b"\x04\x42\x00\x00\x00\x00\x00\x00"), 0x81),
    "CONNECT with bytes after it": (connect(b"\x05\x02\x00\x00\x00\x00\x00x"), 0x81),
    "CONNECT receive maximum 0": (
        connect(b"\x05\x02\x00\x00\x03\x21\x00\x00\x00\x00"), 0x82,
    ),
    "CONNACK reserved flags": (b"\x20\x03\x02\x00\x00", 0x81),
}  # fmt: skip


@pytest.mark.parametrize(("data", "reason"), HOSTILE.values(), ids=HOSTILE.keys())
def test_malformed_bytes_carry_their_reason(data: bytes, reason: int) -> None:
    with pytest.raises(BrokenRule) as caught:
        parse(data)
    assert caught.value.reason == reason


def test_311_has_no_auth_and_no_option_bits() -> None:
    for data in (b"\xf0\x00", b"\x82\x06\x00\x01\x00\x01a\x04", b"\x40\x03\x00\x01\x00"):
        with pytest.raises(BrokenRule):
            parse(data, Version.V311)


def test_an_oversized_packet_is_refused_before_its_body_is_there() -> None:
    parser = Parser(1_000, Version.V5)
    assert list(parser.feed(b"\x30\xe5")) == []
    with pytest.raises(BrokenRule) as caught:
        list(parser.feed(b"\x07"))  # 997 bytes and three of header: exactly fits
        list(Parser(999, Version.V5).feed(b"\x30\xe5\x07"))
    assert caught.value.reason is ReasonCode.PACKET_TOO_LARGE


def test_packets_before_the_fault_come_out() -> None:
    packets_seen: list[p.Packet] = []
    with pytest.raises(BrokenRule):
        packets_seen.extend(Parser(BYTES_MAX, Version.V5).feed(encode(p.Pingreq()) + b"\x00\x00"))
    seen: list[p.Packet] = []
    feed = Parser(BYTES_MAX, Version.V5).feed(encode(p.Pingreq()) + b"\x00\x00")
    seen.append(next(feed))
    assert seen == [p.Pingreq()]


def test_a_server_refuses_another_protocol_at_its_first_byte() -> None:
    with pytest.raises(BrokenRule):
        list(Parser(BYTES_MAX).feed(b"G"))


def test_the_connect_says_how_the_rest_is_read() -> None:
    connect_311 = encode(p.Connect("c", Version.V311))
    publish = encode(p.Publish("t", b"\x00x"), Version.V311)
    *_, last = Parser(BYTES_MAX).feed(connect_311 + publish)
    assert last == p.Publish("t", b"\x00x")


def test_user_properties_keep_their_order() -> None:
    pairs = tuple((PropertyId.USER_PROPERTY, ("k", str(n))) for n in (3, 1, 2))
    [got] = parse(encode(p.Publish("t", b"", properties=pairs)))
    assert isinstance(got, p.Publish)
    assert got.properties == pairs


@pytest.mark.parametrize("first", [b"\x82", b"\xa2"])
def test_filters_of_one_packet_are_bounded(first: bytes) -> None:
    one = b"\x00\x01a\x00" if first == b"\x82" else b"\x00\x01a"
    for count, is_refused in ((10_000, False), (10_001, True)):
        body = b"\x00\x01\x00" + one * count
        parser = Parser(1 << 20, Version.V5)
        data = first + fields.varint(len(body)) + body
        if is_refused:
            with pytest.raises(BrokenRule) as caught:
                list(parser.feed(data))
            assert caught.value.reason is ReasonCode.QUOTA_EXCEEDED
        else:
            assert len(list(parser.feed(data))) == 1


def test_properties_of_one_packet_are_bounded() -> None:
    for count, is_refused in ((13_926, False), (13_927, True)):
        found = ((PropertyId.USER_PROPERTY, ("", "")),) * count
        data = encode(p.Publish("t", b"", properties=found))
        parser = Parser(1 << 20, Version.V5)
        if is_refused:
            with pytest.raises(BrokenRule) as caught:
                list(parser.feed(data))
            assert caught.value.reason is ReasonCode.QUOTA_EXCEEDED
        else:
            assert len(list(parser.feed(data))) == 1
