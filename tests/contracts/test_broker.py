"""What every broker this project runs on must do, checked with an independent client (paho)."""

import itertools
import socket
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from cloud.broker.codec.encode import encode
from cloud.broker.codec.packets import Connect, Publish
from cloud.broker.launch import BrokerAddress
from tests.brokers import TIMEOUT_S, BrokerKind, Client, MQTTv5, MQTTv311

versions = pytest.mark.parametrize("version", [MQTTv5, MQTTv311], ids=["v5", "v311"])


@dataclass(frozen=True)
class Capabilities:
    """Where brokers differ, and why a test asserts something else for one of them."""

    hands_over_unacknowledged: bool
    """Mosquitto 2.0.11 discards what a share group's member had not acknowledged when it died."""
    says_taken_over: bool
    """Mosquitto 2.0.11 closes the older connection without a DISCONNECT 0x8E."""


CAPABILITIES: dict[BrokerKind, Capabilities] = {
    "embedded": Capabilities(hands_over_unacknowledged=True, says_taken_over=True),
    "mosquitto": Capabilities(hands_over_unacknowledged=False, says_taken_over=False),
}


@pytest.fixture
def name() -> str:
    """Give a client id and topic that no other test uses."""
    return uuid.uuid4().hex[:12]


@versions
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_arrives_as_sent(
    broker: BrokerAddress, name: str, version: MQTTProtocolVersion, qos: int
) -> None:
    with Client(broker, name, version=version) as client:
        client.subscribe(name, qos)
        client.publish(name, b"\x00payload\xff", qos)
        got = client.next()
        assert (got.topic, got.payload, got.qos, got.retain) == (name, b"\x00payload\xff", qos, 0)


@versions
def test_messages_of_a_topic_keep_their_order(
    broker: BrokerAddress, name: str, version: MQTTProtocolVersion
) -> None:
    with Client(broker, name, version=version) as client, Client(broker, name + "p") as other:
        client.subscribe(name)
        for index in range(500):
            other.paho.publish(name, str(index), 1)
        assert client.payloads(500) == [str(index).encode() for index in range(500)]


def test_the_lower_qos_counts(broker: BrokerAddress, name: str) -> None:
    with Client(broker, name) as client:
        client.subscribe(name, 0)
        client.publish(name, b"x", 1)
        assert client.next().qos == 0


@versions
def test_a_retained_message_waits_for_subscribers_until_cleared(
    broker: BrokerAddress, name: str, version: MQTTProtocolVersion
) -> None:
    with Client(broker, name, version=version) as client:
        client.publish(name + "/a", b"old", retain=True)
        client.publish(name + "/a", b"new", retain=True)
        client.subscribe(name + "/+")
        got = client.next()
        assert (got.payload, got.retain) == (b"new", 1)
        client.publish(name + "/a", b"", retain=True)
        assert client.next().payload == b""  # the clearing message is routed like any other
        client.paho.unsubscribe(name + "/+")
        client.subscribe(name + "/#")
        client.expect_nothing()


def test_retain_handling(broker: BrokerAddress, name: str) -> None:
    with Client(broker, name) as client:
        client.publish(name, b"kept", retain=True)
        client.subscribe(name, retainHandling=2)
        client.expect_nothing()
        client.subscribe(name, retainHandling=1)  # not new any more
        client.expect_nothing()
        client.subscribe(name, retainHandling=0)
        assert client.next().retain


@pytest.mark.parametrize("as_published", [True, False])
def test_retain_as_published(broker: BrokerAddress, name: str, *, as_published: bool) -> None:
    with Client(broker, name) as client:
        client.subscribe(name, retainAsPublished=as_published)
        client.publish(name, b"live", retain=True)
        assert client.next().retain == as_published


def test_no_local_keeps_own_messages_away(broker: BrokerAddress, name: str) -> None:
    with Client(broker, name) as client, Client(broker, name + "p") as other:
        client.subscribe(name, noLocal=True)
        client.publish(name, b"own")
        other.publish(name, b"other")
        assert client.next().payload == b"other"


@pytest.mark.parametrize(
    ("topic_filter", "topic", "fits"),
    [
        ("{}/+/c", "{}/b/c", True),
        ("{}/+/c", "{}/b/d", False),
        ("{}/#", "{}/b/c", True),
        ("{}/#", "{}", True),
        ("{}/+", "{}", False),
        ("{}/+", "{}/", True),
        ("+/{}", "/{}", True),
        ("+/{}", "$x/{}", False),
    ],
)
def test_wildcards(
    broker: BrokerAddress, name: str, topic_filter: str, topic: str, *, fits: bool
) -> None:
    with Client(broker, name) as client:
        client.subscribe(topic_filter.format(name))
        client.publish(topic.format(name), b"x")
        if fits:
            assert client.next().topic == topic.format(name)
        else:
            client.expect_nothing()


def test_properties_arrive_in_order(broker: BrokerAddress, name: str) -> None:
    pairs = [("b", "1"), ("a", "2"), ("b", "3")]
    with Client(broker, name) as client:
        client.subscribe(name, identifier=77)
        client.publish(
            name, b"x", UserProperty=pairs, ContentType="t/x", ResponseTopic="re/ply",
            CorrelationData=b"\x01", MessageExpiryInterval=100,
        )  # fmt: skip
        got: Any = client.next().properties
        assert got.UserProperty == pairs
        assert (got.ContentType, got.ResponseTopic) == ("t/x", "re/ply")
        assert got.CorrelationData == b"\x01"
        assert got.SubscriptionIdentifier == [77]
        assert 98 <= got.MessageExpiryInterval <= 100


def test_a_publisher_hears_that_nobody_subscribed(broker: BrokerAddress, name: str) -> None:
    with Client(broker, name) as client:
        assert client.publish(name, b"x").value == 0x10
        client.subscribe(name)
        assert client.publish(name, b"x").value == 0


@versions
def test_a_persistent_session_gets_what_it_missed(
    broker: BrokerAddress, name: str, version: MQTTProtocolVersion
) -> None:
    lasting: dict[str, Any] = {"version": version, "clean": False, "expiry_s": 600}
    with Client(broker, name + "p") as other:
        client = Client(broker, name, **lasting)
        assert not client.session_present
        client.subscribe(name, 2)
        client.break_off()
        other.publish(name, b"0", 0)
        other.publish(name, b"1", 1)
        other.publish(name, b"2", 2)
        with Client(broker, name, **lasting) as back:
            assert back.session_present
            assert [one for one in back.payloads(2) if one != b"0"] == [b"1", b"2"]
            back.expect_nothing()


def test_unacknowledged_messages_come_again_marked_as_such(
    broker: BrokerAddress, name: str
) -> None:
    with Client(broker, name + "p") as other:
        client = Client(broker, name, clean=False, expiry_s=600, manual_ack=True)
        client.subscribe(name)
        for index in range(3):
            other.publish(name, str(index).encode())
        first = client.next()
        client.payloads(2)
        client.paho.ack(first.mid, first.qos)
        client.disconnect()
        with Client(broker, name, clean=False, expiry_s=600) as back:
            again = [back.next(), back.next()]
            assert [(one.payload, one.dup) for one in again] == [(b"1", True), (b"2", True)]
            back.expect_nothing()


@versions
def test_a_clean_start_forgets(
    broker: BrokerAddress, name: str, version: MQTTProtocolVersion
) -> None:
    with Client(broker, name + "p") as other:
        client = Client(broker, name, version=version, clean=False, expiry_s=600)
        client.subscribe(name)
        client.disconnect()
        other.publish(name, b"missed")
        with Client(broker, name, version=version, clean=True) as back:
            assert not back.session_present
            other.publish(name, b"nobody subscribed")
            back.expect_nothing()


@versions
def test_a_will_is_for_connections_that_break(
    broker: BrokerAddress, name: str, version: MQTTProtocolVersion
) -> None:
    with Client(broker, name) as watcher:
        watcher.subscribe(name + "/#")
        will = (name + "/will", b"gone")
        Client(broker, name + "a", version=version, will=will).disconnect()
        watcher.expect_nothing()
        Client(broker, name + "b", version=version, will=will).break_off()
        assert watcher.next().payload == b"gone"


def test_a_delayed_will_is_called_off_by_a_return(broker: BrokerAddress, name: str) -> None:
    with Client(broker, name) as watcher:
        watcher.subscribe(name + "/#")
        will = (name + "/will", b"gone")
        again: dict[str, Any] = {"expiry_s": 600, "clean": False}
        Client(broker, name + "a", will=will, will_delay_s=1, **again).break_off()
        Client(broker, name + "a", **again).disconnect()
        Client(broker, name + "b", will=will, will_delay_s=1, **again).break_off()
        Client(broker, name + "c", will=(name + "/now", b""), **again).break_off()
        assert [watcher.next().topic, watcher.next().topic] == [name + "/now", name + "/will"]
        watcher.expect_nothing()


def test_a_share_group_spreads_its_messages(broker: BrokerAddress, name: str) -> None:
    with (
        Client(broker, name + "1") as one,
        Client(broker, name + "2") as two,
        Client(broker, name + "p") as other,
    ):
        for member in (one, two):
            member.subscribe(f"$share/g/{name}/#")
        for index in range(100):
            other.publish(f"{name}/{index}", str(index).encode())
        got = Counter[int]()
        seen: set[bytes] = set()
        for member, number in ((one, 1), (two, 2)):
            topic = f"fence/{name}/{number}"
            member.subscribe(topic)
            member.publish(topic, b"fence")
            while (payload := member.next().payload) != b"fence":
                got[number] += 1
                seen.add(bytes(payload))
        assert len(seen) == sum(got.values()) == 100
        assert min(got[1], got[2]) >= 20, got


def test_a_dead_members_messages_go_to_another(
    broker: BrokerAddress, broker_kind: BrokerKind, name: str
) -> None:
    with Client(broker, name + "2") as survivor, Client(broker, name + "p") as other:
        doomed = Client(broker, name + "1", manual_ack=True, will=(name + "/dead", b"dead"))
        survivor.subscribe(name + "/dead")
        doomed.subscribe(f"$share/g/{name}")
        for index in range(5):
            other.publish(name, str(index).encode())
        assert len(doomed.payloads(5)) == 5
        survivor.subscribe(f"$share/g/{name}")
        doomed.break_off()
        got = set(iter(lambda: survivor.next().payload, b"dead"))  # the broker has noticed
        other.publish(name, b"last")
        got |= set(iter(lambda: survivor.next().payload, b"last"))
        lost = {b"0", b"1", b"2", b"3", b"4"}
        assert got == (lost if CAPABILITIES[broker_kind].hands_over_unacknowledged else set())


@versions
def test_a_second_connection_takes_over(
    broker: BrokerAddress, broker_kind: BrokerKind, name: str, version: MQTTProtocolVersion
) -> None:
    first = Client(broker, name, version=version)
    with Client(broker, name, version=version) as second:
        reason = first.ended()
        told = version == MQTTv5 and CAPABILITIES[broker_kind].says_taken_over
        assert reason.value == (0x8E if told else 0x80)  # 0x80 is paho's word for a bare close
        first.disconnect()
        second.subscribe(name)
        second.publish(name, b"x")
        assert second.next().payload == b"x"


def _raw(broker: BrokerAddress) -> socket.socket:
    return socket.create_connection((broker.host, broker.port), timeout=TIMEOUT_S)


def _rest(sock: socket.socket) -> bytes:
    """Everything until the broker closes; a timeout is a failure."""
    out = b""
    try:
        while data := sock.recv(65_536):
            out += data
    except ConnectionResetError:
        pass
    return out


def test_a_silent_client_is_closed_after_its_keep_alive(broker: BrokerAddress, name: str) -> None:
    with Client(broker, name) as watcher, _raw(broker) as sock:
        watcher.subscribe(name)
        started = time.monotonic()
        sock.sendall(encode(Connect(name + "s", keep_alive=1)))
        assert _rest(sock).startswith(b"\x20")
        assert 1.0 < time.monotonic() - started < 6.0
        watcher.publish(name, b"still here")
        assert watcher.next().payload == b"still here"


HOSTILE = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "publish first": encode(Publish("t", b"x")),
    "connect with reserved flag": b"\x10\x0d\x00\x04MQTT\x05\x01\x00\x00\x00\x00\x00",
    "wildcard in publish": encode(Connect("")) + encode(Publish("a/#", b"x")),
    "two connects": encode(Connect("")) * 2,
    "bad utf-8 topic": encode(Connect("")) + b"\x30\x05\x00\x02\xc3\x28\x00",
    "endless length": encode(Connect("")) + b"\x30\xff\xff\xff\xff\x7f",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_garbage_disturbs_nobody_else(broker: BrokerAddress, name: str, data: bytes) -> None:
    with Client(broker, name) as bystander, _raw(broker) as sock:
        bystander.subscribe(name)
        sock.sendall(data)
        _rest(sock)
        bystander.publish(name, b"fine")
        assert bystander.next().payload == b"fine"


def test_an_oversized_packet_closes_only_its_connection(broker: BrokerAddress, name: str) -> None:
    with Client(broker, name) as bystander, _raw(broker) as sock:
        bystander.subscribe(name)
        sock.sendall(encode(Connect(name + "o")))
        assert sock.recv(1) == b"\x20"
        sock.sendall(b"\x30" + b"\x80\x80\x10")  # 256 KB announced, none of it sent
        _rest(sock)
        bystander.publish(name, b"fine")
        assert bystander.next().payload == b"fine"


def test_two_hundred_clients_at_once(broker: BrokerAddress, name: str) -> None:
    clients: list[Client] = []
    with Client(broker, name) as hub:
        hub.subscribe(name + "/+")
        numbers = itertools.count()

        def join() -> None:
            for _ in range(20):
                client = Client(broker, f"{name}{next(numbers)}")
                clients.append(client)
                client.publish(f"{name}/{len(clients)}", b"x")

        joining = [threading.Thread(target=join) for _ in range(10)]
        for thread in joining:
            thread.start()
        for thread in joining:
            thread.join()
        assert hub.payloads(200) == [b"x"] * 200
        assert all(client.paho.is_connected() for client in clients)
        for client in clients:
            client.paho.disconnect()
        for client in clients:
            client.paho.loop_stop()
