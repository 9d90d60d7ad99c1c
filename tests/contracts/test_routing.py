"""Who gets a message, at which QoS, in which order."""

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from cloud.broker.codec import packets as p
from tests.brokers import MQTTv5
from tests.contracts.capabilities import Capabilities
from tests.contracts.conftest import Clients
from tests.raw_client import found, props


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_message_arrives_as_sent(
    clients: Clients, version: MQTTProtocolVersion, qos: int
) -> None:
    client, name = clients.paho(version=version), clients.name
    assert client.subscribe(name, qos).value == qos
    client.publish(name, b"\x00payload\xff", qos)
    got = client.next()
    assert (got.topic, got.payload, got.qos, got.retain) == (name, b"\x00payload\xff", qos, 0)


def test_messages_of_a_topic_keep_their_order(
    clients: Clients, version: MQTTProtocolVersion
) -> None:
    client, other = clients.paho(version=version), clients.paho("p")
    client.subscribe(clients.name)
    for index in range(500):
        other.paho.publish(clients.name, str(index), 1)
    assert client.payloads(500) == [str(index).encode() for index in range(500)]


@pytest.mark.parametrize("sent", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_the_lower_qos_counts(clients: Clients, sent: int, granted: int) -> None:
    client = clients.paho()
    client.subscribe(clients.name, granted)
    client.publish(clients.name, b"x", sent)
    assert client.next().qos == min(sent, granted)


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
        ("$x/#", "$x/{}", True),
    ],
)
def test_wildcards(clients: Clients, topic_filter: str, topic: str, *, fits: bool) -> None:
    client, name = clients.paho(), clients.name
    client.subscribe(topic_filter.format(name))
    client.publish(topic.format(name), b"x")
    if fits:
        assert client.next().topic == topic.format(name)
    else:
        client.expect_nothing()


def test_no_local_keeps_own_messages_away(clients: Clients) -> None:
    client, other = clients.paho(), clients.paho("p")
    client.subscribe(clients.name, noLocal=True)
    client.publish(clients.name, b"own")
    other.publish(clients.name, b"other")
    assert client.next().payload == b"other"


def test_overlapping_subscriptions_bring_one_message_at_the_highest_qos(
    clients: Clients, can: Capabilities, version: MQTTProtocolVersion
) -> None:
    client, name = clients.paho(version=version), clients.name
    client.subscribe(f"{name}/#", 2)
    client.subscribe(f"{name}/+", 1)
    client.publish(f"{name}/c", b"once", 2)
    got = [one.qos for one in client.so_far()]
    if can.merges_overlapping:
        assert got == [2]
    else:
        assert sorted(got) == [1, 2] if version == MQTTv5 else len(got) == 1


def test_every_identifier_of_overlapping_subscriptions_comes_along(
    clients: Clients, can: Capabilities
) -> None:
    client, name = clients.raw(), clients.name
    client.subscribe(f"{name}/a", 1, subscription_identifier=2)
    client.subscribe(f"{name}/#", 1, subscription_identifier=268_435_455)
    client.subscribe(f"{name}/+", 1)
    client.publish(f"{name}/a", b"x")
    messages = [one for one in client.so_far() if isinstance(one, p.Publish)]
    came = [value for one in messages for value in found(one, "subscription_identifier")]
    assert sorted(came) == [2, 268_435_455]
    assert len(messages) == (1 if can.merges_overlapping else 3)


def test_subscribing_again_replaces_the_options(clients: Clients) -> None:
    client, name = clients.raw(), clients.name
    client.subscribe(name, 2, subscription_identifier=1)
    client.subscribe(name, 0, subscription_identifier=7)
    client.publish(name, b"x", 2)
    publish = client.expect(p.Publish)
    assert (publish.qos, publish.properties) == (0, props(subscription_identifier=7))
    assert client.so_far() == []


def test_unsubscribing_ends_it_for_that_filter_alone(
    clients: Clients, version: MQTTProtocolVersion
) -> None:
    client, other, name = clients.paho(version=version), clients.paho("p"), clients.name
    for one in "abc":
        client.subscribe(f"{name}/{one}", 2)
    client.unsubscribe(f"{name}/a")
    for one in "abc":
        other.publish(f"{name}/{one}", one.encode())
    assert client.payloads(2) == [b"b", b"c"]
    client.expect_nothing()


def test_each_filter_of_a_subscribe_and_an_unsubscribe_has_its_answer(clients: Clients) -> None:
    client, name = clients.raw(), clients.name
    wanted = tuple(p.Subscription(f"{name}/{qos}", qos) for qos in (2, 0, 1))
    client.send(p.Subscribe(9, wanted))
    assert client.expect(p.Suback) == p.Suback(9, (2, 0, 1))
    client.send(p.Unsubscribe(10, (f"{name}/0", f"{name}/none")))
    assert client.expect(p.Unsuback) == p.Unsuback(10, (0, 0x11))


def test_a_publisher_hears_that_nobody_subscribed(clients: Clients) -> None:
    client, name = clients.paho(), clients.name
    assert client.publish(name, b"x").value == 0x10
    assert client.publish(name, b"x", 2).value in (0, 0x10)  # paho tells PUBCOMP's reason
    client.subscribe(name)
    assert client.publish(name, b"x").value == 0
