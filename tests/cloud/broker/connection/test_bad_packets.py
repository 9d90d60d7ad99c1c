"""Bytes that break a rule: the reason each is answered with, and that nobody else notices.

Sections are those of MQTT 5.0 (3.1.1 where it says so). The bytes are put together here, not by
the broker's own encoder.
"""

from typing import NamedTuple

import pytest

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from cloud.broker.codec.parser import Parser
from cloud.broker.codec.reasons import BrokenRule
from cloud.broker.connection.connection import Connection
from cloud.broker.limits import Limits
from cloud.broker.router.router import Router

PLENTY = 1 << 30
LIMITS = Limits(packet_bytes_max=1_000, receive_maximum=2, topic_alias_maximum=4)


def text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return len(data).to_bytes(2, "big") + data


def packet(first: int, *parts: bytes) -> bytes:
    body = b"".join(parts)
    assert len(body) < 128
    return bytes((first, len(body))) + body


def props(*parts: bytes) -> bytes:
    body = b"".join(parts)
    return bytes((len(body),)) + body


NONE = b"\0"
ID = b"\0\7"
NAME = text("MQTT")


def connect(
    flags: int = 2, *rest: bytes, properties: bytes = NONE, client_id: bytes = b"bad"
) -> bytes:
    return packet(
        0x10, NAME, b"\5", bytes((flags,)), b"\0\0", properties, text(client_id), *rest
    )  # fmt: skip


def connect_311(flags: int = 2, *rest: bytes, client_id: bytes = b"bad") -> bytes:
    return packet(0x10, NAME, b"\4", bytes((flags,)), b"\0\0", text(client_id), *rest)


class Wire:
    """A client that is only bytes."""

    def __init__(self, router: Router) -> None:
        self.connection = Connection(router, lambda: None)
        self.parser = Parser(LIMITS.packet_bytes_max)
        self.error: BrokenRule | None = None

    def send(self, data: bytes) -> None:
        try:
            for one in self.parser.feed(data):
                self.connection.receive(one, 0)
        except BrokenRule as error:
            self.error = error
            self.connection.fail(error, 0)

    def got(self, version: Version = Version.V5) -> list[p.Packet]:
        data = b"".join(self.connection.collect(0, PLENTY))
        return list(Parser(PLENTY, version).feed(data))


class Case(NamedTuple):
    """What is sent, why that is wrong, and the reason code it must be answered with."""

    section: str
    name: str
    data: bytes
    reason: int


AFTER_CONNECT = [
    # the fixed header
    Case("2.1.4", "remaining length of five bytes", b"\x30\x80\x80\x80\x80\x01", 0x81),
    Case("1.5.5-1", "remaining length in a longer form than needed", b"\xc0\x80\x00", 0x81),
    Case("3.1.2.11.4", "longer than CONNACK allowed", b"\x30\xff\x7f", 0x95),
    Case("2.1.2", "packet type 0", b"\x00\x00", 0x81),
    Case("2.1.3-1", "reserved flags of PINGREQ", b"\xc1\x00", 0x81),
    Case("2.1.3-1", "reserved flags of DISCONNECT", b"\xe2\x00", 0x81),
    Case("3.6.1-1", "reserved flags of PUBREL", b"\x60\x02\x00\x07", 0x81),
    Case("3.8.1-1", "reserved flags of SUBSCRIBE", packet(0x80, ID, NONE, text("a"), NONE), 0x81),
    Case("3.10.1-1", "reserved flags of UNSUBSCRIBE", packet(0xA0, ID, NONE, text("a")), 0x81),
    Case("3.4", "reserved flags of PUBACK", b"\x41\x02\x00\x07", 0x81),
    # PUBLISH
    Case("3.3.1-4", "QoS 3", packet(0x36, text("a"), ID, NONE), 0x81),
    Case("3.3.1-2", "DUP with QoS 0", packet(0x38, text("a"), NONE), 0x81),
    Case("2.2.1-3", "packet identifier 0", packet(0x32, text("a"), b"\0\0", NONE), 0x82),
    Case("3.3.2.1", "ends inside the topic", packet(0x30, b"\0\5abc"), 0x81),
    Case("3.3.2.1", "ends inside the topic's length", packet(0x30, b"\0"), 0x81),
    Case("3.3.2.2", "ends before the packet identifier", packet(0x32, text("a"), b"\0"), 0x81),
    Case("3.3.2.3.1", "ends before the property length", packet(0x30, text("a")), 0x81),
    Case("3.3.2.3.1", "property length past the end", packet(0x30, text("a"), b"\x09\x01\0"), 0x81),
    Case("1.5.5", "property length of five bytes",
         packet(0x30, text("a"), b"\x80\x80\x80\x80\x01"), 0x81),
    Case("1.5.5-1", "property length in a longer form", packet(0x30, text("a"), b"\x80\0"), 0x81),
    Case("3.3.2-2", "+ in a topic name", packet(0x30, text("a/+"), NONE), 0x90),
    Case("3.3.2-2", "# in a topic name", packet(0x30, text("#"), NONE), 0x90),
    Case("4.7.3-1", "an empty topic name without alias", packet(0x30, text(""), NONE), 0x82),
    Case("1.5.4-1", "bytes that are no UTF-8", packet(0x30, text(b"\xc3\x28"), NONE), 0x81),
    Case("1.5.4-1", "a surrogate", packet(0x30, text(b"\xed\xa0\x80"), NONE), 0x81),
    Case("1.5.4-1", "an over-long form", packet(0x30, text(b"\xc0\xaf"), NONE), 0x81),
    Case("1.5.4-1", "over U+10FFFF", packet(0x30, text(b"\xf4\x90\x80\x80"), NONE), 0x81),
    Case("1.5.4-2", "U+0000", packet(0x30, text("a\0b"), NONE), 0x81),
    Case("3.3.2.3.4", "alias 0", packet(0x30, text("a"), props(b"\x23\0\0")), 0x94),
    Case("3.3.2.3.4", "alias over the maximum", packet(0x30, text("a"), props(b"\x23\0\5")), 0x94),
    Case("3.3.2.3.4", "alias that was never set", packet(0x30, text(""), props(b"\x23\0\4")), 0x82),
    Case("3.3.2.3.4", "alias twice",
         packet(0x30, text("a"), props(b"\x23\0\1", b"\x23\0\1")), 0x82),
    Case("3.3.2.3.2", "payload format twice",
         packet(0x30, text("a"), props(b"\1\1", b"\1\1")), 0x82),
    Case("3.3.2.3.2", "payload format 2", packet(0x30, text("a"), props(b"\1\2")), 0x82),
    Case("3.3.2.3.3", "message expiry twice",
         packet(0x30, text("a"), props(b"\2\0\0\0\1", b"\2\0\0\0\1")), 0x82),
    Case("3.3.2-14", "wildcard in a response topic",
         packet(0x30, text("a"), props(b"\x08", text("b/#"))), 0x90),
    Case("3.3.4-6", "subscription identifier from a client",
         packet(0x30, text("a"), props(b"\x0b\1")), 0x82),
    Case("2.2.2.2", "a property that does not exist", packet(0x30, text("a"), props(b"\x7f\0")),
         0x81),
    Case("2.2.2.2", "a property of CONNECT", packet(0x30, text("a"), props(b"\x21\0\1")), 0x81),
    Case("2.2.2.2", "a property that ends too early", packet(0x30, text("a"), props(b"\2\0\0")),
         0x81),
    Case("2.2.2.2", "half a user property", packet(0x30, text("a"), props(b"\x26", text("k"))),
         0x81),
    Case("1.5.4-1", "no UTF-8 in a user property",
         packet(0x30, text("a"), props(b"\x26", text("k"), text(b"\xff"))), 0x81),
    Case("3.3.4-7", "more QoS 2 messages open than CONNACK allowed",
         b"".join(packet(0x34, text("a"), bytes((0, one)), NONE) for one in (1, 2, 3)), 0x93),
    # acknowledgements
    Case("2.2.1-3", "PUBACK of identifier 0", b"\x40\x02\0\0", 0x82),
    Case("3.4.2", "PUBACK without identifier", b"\x40\x00", 0x81),
    Case("3.5.2", "PUBREC with half an identifier", b"\x50\x01\0", 0x81),
    Case("3.4.2.2", "PUBACK with bytes after its properties", b"\x40\x05\0\7\0\0\0", 0x81),
    Case("3.4.2.2.2", "reason string twice",
         packet(0x40, ID, b"\0", props(b"\x1f", text("x"), b"\x1f", text("y"))), 0x82),
    # SUBSCRIBE, UNSUBSCRIBE
    Case("2.2.1-3", "SUBSCRIBE with identifier 0", packet(0x82, b"\0\0", NONE, text("a"), NONE),
         0x82),
    Case("3.8.3-2", "SUBSCRIBE without filter", packet(0x82, ID, NONE), 0x82),
    Case("3.8.3", "SUBSCRIBE that ends before its options", packet(0x82, ID, NONE, text("a")),
         0x81),
    Case("3.8.3.1", "QoS 3 in the options", packet(0x82, ID, NONE, text("a"), b"\3"), 0x82),
    Case("3.8.3.1", "retain handling 3", packet(0x82, ID, NONE, text("a"), b"\x30"), 0x82),
    Case("3.8.3-5", "reserved option bits", packet(0x82, ID, NONE, text("a"), b"\x40"), 0x81),
    Case("3.8.3-4", "no local on a shared subscription",
         packet(0x82, ID, NONE, text("$share/g/a"), b"\4"), 0x82),
    Case("3.8.2.1.2", "subscription identifier 0",
         packet(0x82, ID, props(b"\x0b\0"), text("a"), NONE), 0x82),
    Case("3.8.2.1.2", "subscription identifier twice",
         packet(0x82, ID, props(b"\x0b\1\x0b\1"), text("a"), NONE), 0x82),
    Case("1.5.5", "subscription identifier of five bytes",
         packet(0x82, ID, props(b"\x0b\x80\x80\x80\x80\1"), text("a"), NONE), 0x81),
    Case("1.5.4-2", "U+0000 in a filter", packet(0x82, ID, NONE, text("a\0"), NONE), 0x81),
    Case("3.10.3-2", "UNSUBSCRIBE without filter", packet(0xA2, ID, NONE), 0x82),
    Case("2.2.1-3", "UNSUBSCRIBE with identifier 0", packet(0xA2, b"\0\0", NONE, text("a")), 0x82),
    # what a client may not send, or not now
    Case("3.1.0-2", "a second CONNECT", connect(), 0x82),
    Case("3.2", "CONNACK", packet(0x20, b"\0\0", NONE), 0x82),
    Case("3.9", "SUBACK", packet(0x90, ID, NONE, b"\0"), 0x82),
    Case("3.11", "UNSUBACK", packet(0xB0, ID, NONE, b"\0"), 0x82),
    Case("3.13", "PINGRESP", b"\xd0\x00", 0x82),
    Case("3.12", "PINGREQ with a body", b"\xc0\x01\0", 0x81),
    Case("4.12.0-7", "AUTH without an authentication method agreed", b"\xf0\x00", 0x82),
    Case("3.14.2.2.2", "DISCONNECT that raises a session expiry of 0",
         packet(0xE0, b"\0", props(b"\x11\0\0\0\1")), 0x82),
    Case("3.14.2.2.2", "session expiry twice in DISCONNECT",
         packet(0xE0, b"\0", props(b"\x11\0\0\0\0" * 2)), 0x82),
]  # fmt: skip

CONNECTED = AFTER_CONNECT
WILL = 6
"""Flags of a CONNECT with clean start and a will of QoS 0."""

FIRST = [
    Case("3.1.2.2", "MQTT level 6", packet(0x10, NAME, b"\6\2\0\0\0", text("c")), 0x84),
    Case("3.1.2.2", "MQTT 3.1", packet(0x10, text("MQIsdp"), b"\3\2\0\0", text("c")), 0x84),
    Case("3.1.2-3", "the reserved flag", connect(3), 0x81),
    Case("3.1.2-11", "a will's QoS without a will", connect(0x0A), 0x81),
    Case("3.1.2-13", "a will's retain without a will", connect(0x22), 0x81),
    Case("3.1.2-12", "a will of QoS 3", connect(WILL | 0x18, NONE, text("w"), text("")), 0x81),
    Case("3.1.3.3", "a wildcard in the will's topic", connect(WILL, NONE, text("w/#"), text("")),
         0x90),
    Case("3.1.3-11", "a will's topic that is no UTF-8",
         connect(WILL, NONE, text(b"\xff"), text("")), 0x81),
    Case("3.1.3.2.2", "will delay twice",
         connect(WILL, props(b"\x18\0\0\0\1" * 2), text("w"), text("")), 0x82),
    Case("3.1.3", "ends before the will", connect(WILL), 0x81),
    Case("3.1.3.5", "ends before the user name", connect(0x82), 0x81),
    Case("3.1.3.6", "ends before the password", connect(0xC2, text("u")), 0x81),
    Case("3.1.3", "bytes after the last field", connect(2, b"x"), 0x81),
    Case("3.1.3-4", "a client identifier that is no UTF-8", connect(client_id=b"\xff"), 0x81),
    Case("1.5.4-2", "U+0000 in the client identifier", connect(client_id=b"a\0"), 0x81),
    Case("3.1.3-12", "a user name that is no UTF-8", connect(0x82, text(b"\xff")), 0x81),
    Case("3.1.2.11.3", "receive maximum 0", connect(properties=props(b"\x21\0\0")), 0x82),
    Case("3.1.2.11.4", "maximum packet size 0", connect(properties=props(b"\x27\0\0\0\0")), 0x82),
    Case("3.1.2.11.2", "session expiry twice",
         connect(properties=props(b"\x11\0\0\0\1" * 2)), 0x82),
    Case("3.1.2.11.6", "request response information 2", connect(properties=props(b"\x19\2")),
         0x82),
    Case("2.2.2.2", "a property of PUBLISH", connect(properties=props(b"\x23\0\1")), 0x81),
    Case("3.1.2.11.9", "an authentication method", connect(properties=props(b"\x15", text("x"))),
         0x8C),
    Case("3.1.2.11.10", "authentication data without a method",
         connect(properties=props(b"\x16", text("x"))), 0x82),
]  # fmt: skip

SILENT = [
    Case("3.1.0-1", "PINGREQ before CONNECT", b"\xc0\x00", 0x82),
    Case("3.1.0-1", "PUBLISH before CONNECT", packet(0x30, text("a"), NONE), 0x82),
    Case("2.1.3-1", "reserved flags of CONNECT", b"\x11" + connect()[1:], 0x82),
    Case("3.1.2-1", "another protocol's name", packet(0x10, text("HTTP"), b"\5\2\0\0\0\0\0"), 0x81),
    Case("3.1.2.1", "ends inside the protocol's name", packet(0x10, b"\0\4MQ"), 0x81),
    Case("", "a request of another protocol", b"GET / HTTP/1.1\r\n\r\n", 0x82),
]  # fmt: skip

OVER_311 = [
    Case("2.2.3", "remaining length of five bytes", b"\x30\x80\x80\x80\x80\x01", 0x81),
    Case("", "longer than allowed", b"\x30\xff\x7f", 0x95),
    Case("3.3.1-4", "QoS 3", packet(0x36, text("a"), ID), 0x81),
    Case("2.3.1-1", "packet identifier 0", packet(0x32, text("a"), b"\0\0"), 0x82),
    Case("3.3.2-2", "a wildcard in a topic name", packet(0x30, text("a/+")), 0x90),
    Case("4.7.3-1", "an empty topic name", packet(0x30, text("")), 0x90),
    Case("1.5.3-1", "a surrogate", packet(0x30, text(b"\xed\xa0\x80")), 0x81),
    Case("1.5.3-2", "U+0000", packet(0x30, text("a\0b")), 0x81),
    Case("3.8.3-4", "reserved option bits", packet(0x82, ID, text("a"), b"\4"), 0x81),
    Case("3.8.3-3", "SUBSCRIBE without filter", packet(0x82, ID), 0x82),
    Case("3.10.3-2", "UNSUBSCRIBE without filter", packet(0xA2, ID), 0x82),
    Case("3.1.0-2", "a second CONNECT", connect_311(), 0x82),
    Case("2.2.1", "AUTH, which it does not have", b"\xf0\x00", 0x81),
    Case("3.14", "DISCONNECT with a reason", b"\xe0\x01\0", 0x81),
    Case("3.4", "PUBACK with a reason", b"\x40\x03\0\7\0", 0x81),
]  # fmt: skip

FIRST_311 = [
    Case("3.1.2-3", "the reserved flag", connect_311(3), 0x81),
    Case("3.1.2-22", "a password without user name", connect_311(0x42, text("x")), 0x81),
    Case("3.1.3-8", "no client identifier for a session to keep", connect_311(0, client_id=b""),
         0x85),
]  # fmt: skip


def named(case: object) -> str:
    assert isinstance(case, Case)
    return f"{case.section} {case.name}"


class Others:
    """A publisher and a subscriber of the same broker, who must not notice."""

    def __init__(self, router: Router) -> None:
        self.publisher, self.subscriber = Wire(router), Wire(router)
        self.publisher.send(connect(client_id=b"publisher"))
        self.subscriber.send(connect(client_id=b"subscriber"))
        self.subscriber.send(packet(0x82, ID, NONE, text("others"), b"\1"))
        self.publisher.got()
        self.subscriber.got()

    def notice_nothing(self) -> None:
        self.publisher.send(packet(0x32, text("others"), ID, NONE, b"ok"))
        assert self.publisher.got() == [p.Puback(7)]
        assert self.subscriber.got() == [p.Publish("others", b"ok", 1, packet_id=1)]
        assert self.publisher.error is self.subscriber.error is None


@pytest.fixture
def router() -> Router:
    return Router(LIMITS, lambda: "made-up")


@pytest.mark.parametrize("case", CONNECTED, ids=named)
def test_after_connect_a_disconnect_says_why(case: Case, router: Router) -> None:
    others, wire = Others(router), Wire(router)
    wire.send(connect())
    wire.got()
    wire.send(case.data)
    assert wire.connection.is_closing
    assert [one.reason for one in wire.got()[-1:] if isinstance(one, p.Disconnect)] == [case.reason]
    assert "bad" not in router.sessions
    others.notice_nothing()


@pytest.mark.parametrize(
    "case",
    FIRST,
    ids=named,
)
def test_a_bad_connect_is_refused_with_its_reason(case: Case, router: Router) -> None:
    others, wire = Others(router), Wire(router)
    wire.send(case.data)
    assert wire.connection.is_closing
    assert wire.error is not None
    assert wire.error.reason == case.reason
    if case.reason == 0x84:  # 3.1.1 section 3.1.2-2: the form that every version can read
        assert wire.connection.collect(0, PLENTY) == [b"\x20\x02\x00\x01"]
    else:
        (told,) = wire.got()
        assert isinstance(told, p.Connack)
        assert told.reason == case.reason
    assert len(router.sessions) == 2
    others.notice_nothing()


@pytest.mark.parametrize("case", SILENT, ids=named)
def test_what_is_no_mqtt_client_is_told_nothing(case: Case, router: Router) -> None:
    others, wire = Others(router), Wire(router)
    wire.send(case.data)
    assert wire.connection.is_closing
    assert wire.error is not None
    assert wire.error.reason == case.reason
    assert wire.got() == []
    assert len(router.sessions) == 2
    others.notice_nothing()


@pytest.mark.parametrize("case", OVER_311, ids=named)
def test_over_311_the_connection_closes_without_a_word(case: Case, router: Router) -> None:
    others, wire = Others(router), Wire(router)
    wire.send(connect_311())
    wire.got(Version.V311)
    wire.send(case.data)
    assert wire.connection.is_closing
    assert wire.error is not None
    assert wire.error.reason == case.reason
    assert wire.got(Version.V311) == []
    others.notice_nothing()


@pytest.mark.parametrize("case", FIRST_311, ids=named)
def test_a_bad_311_connect_is_closed(case: Case, router: Router) -> None:
    others, wire = Others(router), Wire(router)
    wire.send(case.data)
    assert wire.connection.is_closing
    assert wire.error is not None
    assert wire.error.reason == case.reason
    told = [p.Connack(session_present=False, reason=2)] if case.reason == 0x85 else []
    assert wire.got(Version.V311) == told
    others.notice_nothing()


OPEN_QOS_2 = packet(0x34, text("a"), ID, NONE)
"""A QoS 2 message with the identifier 7, whose PUBREL is due."""

ANSWERED = [
    ("4.3.3-10", "QoS 2 again before PUBREL", OPEN_QOS_2, p.Pubrec(7)),
    ("2.2.1-3", "QoS 1 with an identifier in use", packet(0x32, text("a"), ID, NONE),
     p.Puback(7, 0x91)),
    ("2.2.1-3", "SUBSCRIBE with an identifier in use", packet(0x82, ID, NONE, text("a"), b"\0"),
     p.Suback(7, (0x91,))),
    ("2.2.1-3", "UNSUBSCRIBE with an identifier in use", packet(0xA2, ID, NONE, text("a")),
     p.Unsuback(7, (0x91,))),
    ("3.6.2.1", "PUBREL for nothing", b"\x62\x02\0\x08", p.Pubcomp(8, 0x92)),
    ("3.5.2.1", "PUBREC for nothing", b"\x50\x02\0\x08", p.Pubrel(8, 0x92)),
    ("4.7.1-1", "# not at the end of a filter", packet(0x82, b"\0\x08", NONE, text("#/a"), b"\0"),
     p.Suback(8, (0x8F,))),
    ("4.7.1-2", "+ beside other characters", packet(0x82, b"\0\x08", NONE, text("a+"), b"\0"),
     p.Suback(8, (0x8F,))),
    ("4.7.3-1", "an empty filter", packet(0x82, b"\0\x08", NONE, text(""), b"\0"),
     p.Suback(8, (0x8F,))),
    ("4.8.2-1", "a share without a name", packet(0x82, b"\0\x08", NONE, text("$share//a"), b"\0"),
     p.Suback(8, (0x8F,))),
    ("4.8.2-2", "a share's name with a wildcard",
     packet(0x82, b"\0\x08", NONE, text("$share/+/a"), b"\0"), p.Suback(8, (0x8F,))),
    ("4.8.2", "a share without a filter", packet(0x82, b"\0\x08", NONE, text("$share/g"), b"\0"),
     p.Suback(8, (0x8F,))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "answer"),
    [one[2:] for one in ANSWERED],
    ids=[" ".join(one[:2]) for one in ANSWERED],
)
def test_what_has_an_answer_of_its_own_keeps_the_connection(
    data: bytes, answer: p.Packet, router: Router
) -> None:
    others, wire = Others(router), Wire(router)
    wire.send(connect() + OPEN_QOS_2)
    wire.got()
    wire.send(data)
    assert wire.got() == [answer]
    assert not wire.connection.is_closing
    others.notice_nothing()


@pytest.mark.parametrize("data", [b"\x40\x02\0\x08", b"\x70\x02\0\x08"], ids=["PUBACK", "PUBCOMP"])
def test_an_acknowledgement_for_nothing_changes_nothing(data: bytes, router: Router) -> None:
    others, wire = Others(router), Wire(router)
    wire.send(connect())
    wire.got()
    wire.send(data)
    assert wire.got() == []
    assert not wire.connection.is_closing
    others.notice_nothing()


@pytest.mark.parametrize("case", CONNECTED, ids=named)
def test_how_the_bytes_are_split_makes_no_difference(case: Case, router: Router) -> None:
    wire = Wire(router)
    for byte in connect() + case.data:
        wire.send(bytes((byte,)))
        if wire.connection.is_closing:
            break
    assert [one.reason for one in wire.got()[-1:] if isinstance(one, p.Disconnect)] == [case.reason]
