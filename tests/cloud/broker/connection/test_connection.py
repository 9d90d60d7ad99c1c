"""One connection's protocol rules: packets in, packets out, without a socket."""

import pytest

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from cloud.broker.codec.parser import Parser
from cloud.broker.codec.properties import PropertyId, has, integer
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from cloud.broker.connection.connection import Connection
from cloud.broker.limits import Limits
from cloud.broker.router.router import Router

PLENTY = 1 << 30
ALIAS = PropertyId.TOPIC_ALIAS


class Peer:
    """A client in the test's hand."""

    def __init__(self, router: Router, connect: p.Connect) -> None:
        self.connection = Connection(router, lambda: None)
        self.version = connect.version
        self.now = 0.0
        self.send(connect)

    def send(self, packet: p.Packet) -> None:
        try:
            self.connection.receive(packet, self.now)
        except BrokenRule as error:
            self.connection.fail(error, self.now)

    def got(self) -> list[p.Packet]:
        data = b"".join(self.connection.collect(self.now, PLENTY))
        return list(Parser(PLENTY, self.version).feed(data))

    def asks(self, packet: p.Packet) -> list[p.Packet]:
        self.got()
        self.send(packet)
        return self.got()


def make(limits: Limits | None = None) -> Router:
    return Router(limits or Limits(), lambda: "made-up")


def peer(router: Router, client_id: str = "c", *filters: str, **more: object) -> Peer:
    one = Peer(router, p.Connect(client_id, **more))  # type: ignore[arg-type]
    if filters:
        one.send(p.Subscribe(1, tuple(p.Subscription(each, 2) for each in filters)))
        one.got()
    return one


def closed_with(answer: list[p.Packet], connection: Connection) -> int:
    assert connection.is_closing
    [last] = answer
    assert isinstance(last, p.Disconnect | p.Connack)
    return last.reason


def test_connack_tells_the_terms() -> None:
    asked = ((PropertyId.SESSION_EXPIRY_INTERVAL, 2**32 - 1),)
    [connack] = peer(make(), "", properties=asked).got()
    assert isinstance(connack, p.Connack)
    assert (connack.reason, connack.session_present) == (0, False)
    assert has(connack.properties, PropertyId.ASSIGNED_CLIENT_IDENTIFIER)
    assert integer(connack.properties, PropertyId.SESSION_EXPIRY_INTERVAL, 0) == 7 * 24 * 3600
    assert integer(connack.properties, PropertyId.MAXIMUM_PACKET_SIZE, 0) == 1_048_576


def test_refused_connects_hear_why() -> None:
    auth = ((PropertyId.AUTHENTICATION_METHOD, "x"),)
    one = peer(make(), properties=auth)
    assert closed_with(one.got(), one.connection) == ReasonCode.BAD_AUTHENTICATION_METHOD
    two = peer(make(), "", version=Version.V311, clean_start=False)
    assert closed_with(two.got(), two.connection) == 2  # 3.1.1: identifier rejected
    full = make(Limits(sessions_max=1))
    peer(full, "first")
    three = peer(full, "second", version=Version.V311)
    assert closed_with(three.got(), three.connection) == 3


def test_nothing_comes_before_connect() -> None:
    connection = Connection(make(), lambda: None)
    with pytest.raises(BrokenRule):
        connection.receive(p.Pingreq(), 0)


@pytest.mark.parametrize(
    ("packet", "reason"),
    [
        (p.Connect("again"), 0x82),
        (p.Connack(False, 0), 0x82),
        (p.Suback(1, (0,)), 0x82),
        (p.Auth(), 0x82),
        (p.Publish("", b"", properties=((ALIAS, 5),)), 0x82),
        (p.Publish("t", b"", properties=((ALIAS, 33),)), 0x94),
        (p.Publish("t", b"", properties=((PropertyId.SUBSCRIPTION_IDENTIFIER, 1),)), 0x82),
        (p.Publish("t", b"", properties=((PropertyId.RESPONSE_TOPIC, "a/#"),)), 0x90),
        (p.Subscribe(1, (p.Subscription("$share/g/t", no_local=True),)), 0x82),
        (p.Disconnect(0, ((PropertyId.SESSION_EXPIRY_INTERVAL, 9),)), 0x82),
    ],
)
def test_broken_rules_close_with_their_reason(packet: p.Packet, reason: int) -> None:
    one = peer(make())
    assert closed_with(one.asks(packet), one.connection) == reason


def test_over_311_the_connection_just_closes() -> None:
    one = peer(make(), version=Version.V311)
    assert one.asks(p.Suback(1, (0,))) == []
    assert one.connection.is_closing


def test_topic_aliases() -> None:
    router = make()
    one = peer(router, "c", "t")
    [publish, puback] = sorted(
        one.asks(p.Publish("t", b"1", 1, packet_id=1, properties=((ALIAS, 2),))), key=str,
        reverse=True,
    )  # fmt: skip
    assert isinstance(publish, p.Publish)
    assert puback == p.Puback(1)
    assert not publish.properties  # an alias is not forwarded
    answer = one.asks(p.Publish("", b"2", 0, properties=((ALIAS, 2),)))
    assert answer == [p.Publish("t", b"2")]


def test_a_qos_2_message_sent_twice_is_routed_once() -> None:
    router = make()
    watcher, one = peer(router, "w", "t"), peer(router, "c")
    publish = p.Publish("t", b"x", 2, packet_id=9)
    assert one.asks(publish) == [p.Pubrec(9)]
    assert one.asks(publish) == [p.Pubrec(9)]
    assert len(watcher.got()) == 1
    assert one.asks(p.Pubrel(9)) == [p.Pubcomp(9)]
    assert one.asks(p.Pubrel(9)) == [p.Pubcomp(9, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)]
    assert one.asks(publish) == [p.Pubrec(9)]
    assert len(watcher.got()) == 1


def test_qos_2_towards_the_client() -> None:
    router = make()
    one = peer(router, "c", "t")
    peer(router, "p").send(p.Publish("t", b"x", 2, packet_id=1))
    [publish] = one.got()
    assert isinstance(publish, p.Publish)
    assert one.asks(p.Pubrec(publish.packet_id)) == [p.Pubrel(publish.packet_id)]
    assert one.asks(p.Pubcomp(publish.packet_id)) == []
    assert one.asks(p.Pubrec(7)) == [p.Pubrel(7, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND)]


def test_too_many_open_qos_2_messages() -> None:
    one = peer(make(Limits(receive_maximum=1)))
    one.send(p.Publish("t", b"", 2, packet_id=1))
    answer = one.asks(p.Publish("t", b"", 2, packet_id=2))
    assert closed_with(answer, one.connection) == ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


def test_reasons_of_publish_are_for_v5_only() -> None:
    router = make()
    publish = p.Publish("nobody", b"", 1, packet_id=1)
    assert peer(router, "5").asks(publish) == [p.Puback(1, 0x10)]
    assert peer(router, "4", version=Version.V311).asks(publish) == [p.Puback(1)]


def test_subscribe_answers_each_filter() -> None:
    wanted = tuple(p.Subscription(one, 1) for one in ("a", "a+", "$share/g/x"))
    [answer] = peer(make()).asks(p.Subscribe(3, wanted))
    assert answer == p.Suback(3, (1, 0x8F, 1))
    [old] = peer(make(), version=Version.V311).asks(p.Subscribe(3, wanted))
    assert old == p.Suback(3, (1, 0x80, 1))
    [gone] = peer(make(), "u", "a").asks(p.Unsubscribe(4, ("a", "b")))
    assert gone == p.Unsuback(4, (0, ReasonCode.NO_SUBSCRIPTION_EXISTED))


def test_what_is_left_of_the_expiry_is_forwarded() -> None:
    router = make()
    one = peer(router, "c", "t")
    expiry = ((PropertyId.MESSAGE_EXPIRY_INTERVAL, 60),)
    peer(router, "p").send(p.Publish("t", b"x", 1, packet_id=1, properties=expiry))
    one.now = 50
    [got] = one.got()
    assert isinstance(got, p.Publish)
    assert got.properties == ((PropertyId.MESSAGE_EXPIRY_INTERVAL, 10),)


def test_packets_over_the_clients_maximum_are_left_out() -> None:
    router = make()
    one = peer(router, "c", "t", properties=((PropertyId.MAXIMUM_PACKET_SIZE, 50),))
    sender = peer(router, "p")
    sender.send(p.Publish("t", bytes(60), 1, packet_id=1))
    sender.send(p.Publish("t", b"ok", 1, packet_id=2))
    assert [each.payload for each in one.got() if isinstance(each, p.Publish)] == [b"ok"]
    assert router.dropped() == {"packet_too_large": 1}
    assert router.sessions["c"].pending == 1


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (p.Disconnect(), False),
        (p.Disconnect(ReasonCode.DISCONNECT_WITH_WILL), True),
        (p.Suback(1, (0,)), True),
        (None, True),
    ],
)
def test_the_will(end: p.Packet | None, *, says: bool) -> None:
    router = make()
    watcher = peer(router, "w", "will")
    doomed = peer(router, "d", will=p.Will("will", b"gone", 1))
    if end is None:
        doomed.connection.lost(0)
    else:
        doomed.send(end)
        doomed.connection.lost(0)
    assert [type(one) for one in watcher.got()] == ([p.Publish] if says else [])


def test_disconnect_may_change_the_expiry() -> None:
    router = make()
    lasting = ((PropertyId.SESSION_EXPIRY_INTERVAL, 60),)
    peer(router, properties=lasting).send(
        p.Disconnect(0, ((PropertyId.SESSION_EXPIRY_INTERVAL, 0),))
    )
    assert not router.sessions


def test_take_over_says_good_bye_to_the_older() -> None:
    router = make()
    lasting = ((PropertyId.SESSION_EXPIRY_INTERVAL, 60),)
    first = peer(router, "c", "t", properties=lasting)
    second = peer(router, "c", clean_start=False)
    assert first.got() == [p.Disconnect(ReasonCode.SESSION_TAKEN_OVER)]
    [connack] = second.got()
    assert isinstance(connack, p.Connack)
    assert connack.session_present
    first.connection.lost(0)  # must not touch the session any more
    assert router.sessions["c"].link is second.connection


@pytest.mark.parametrize(("bytes_max", "heard"), [(4, []), (5, [0x95]), (16, [0x95]), (200, [0])])
def test_a_connack_stays_within_the_clients_maximum_packet_size(
    bytes_max: int, heard: list[int]
) -> None:
    router = make()
    asked = ((PropertyId.MAXIMUM_PACKET_SIZE, bytes_max),)
    one = peer(router, "c", properties=asked)
    got = one.got()
    assert [answer.reason for answer in got if isinstance(answer, p.Connack)] == heard
    assert len(got) == len(heard)
    assert one.connection.is_closing == (heard != [0])
    assert bool(router.sessions) == (heard == [0])


def test_an_answer_over_the_clients_maximum_packet_size_closes() -> None:
    one = peer(make(), "c", properties=((PropertyId.MAXIMUM_PACKET_SIZE, 40),))
    many = p.Subscribe(1, tuple(p.Subscription(f"t{n}") for n in range(40)))
    assert closed_with(one.asks(many), one.connection) == ReasonCode.PACKET_TOO_LARGE
