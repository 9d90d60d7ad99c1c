"""Properties of version 5 messages, and their way past a 3.1.1 client."""

from typing import Any

import pytest

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from tests.contracts.capabilities import Capabilities
from tests.contracts.conftest import Clients
from tests.raw_client import found, props


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_properties_arrive_in_order(clients: Clients, qos: int) -> None:
    pairs = [("b", "1"), ("a", "2"), ("b", "3")]
    client, name = clients.paho(), clients.name
    client.subscribe(name, 2, identifier=77)
    client.publish(
        name, b"x", qos, UserProperty=pairs, ContentType="t/x", ResponseTopic="re/ply",
        CorrelationData=b"\x01", MessageExpiryInterval=100, PayloadFormatIndicator=1,
    )  # fmt: skip
    got: Any = client.next().properties
    assert got.UserProperty == pairs
    assert (got.ContentType, got.ResponseTopic) == ("t/x", "re/ply")
    assert (got.CorrelationData, got.PayloadFormatIndicator) == (b"\x01", 1)
    assert got.SubscriptionIdentifier == [77]
    assert 98 <= got.MessageExpiryInterval <= 100


def test_a_request_finds_its_response(clients: Clients) -> None:
    asks, answers, name = clients.raw("a"), clients.raw("b"), clients.name
    for client in (asks, answers):
        wanted = p.Subscription(name, 2, no_local=True)
        client.send(p.Subscribe(client.packet_id(), (wanted,)))
        client.expect(p.Suback)
    asks.publish(name, b"request", response_topic=name, correlation_data=b"\x00334")
    request = answers.expect(p.Publish)
    [topic] = found(request, "response_topic")
    [correlation] = found(request, "correlation_data")
    answers.publish(topic, b"response", correlation_data=correlation)
    response = asks.expect(p.Publish)
    assert (response.payload, response.properties) == (
        b"response", props(correlation_data=b"\x00334"),
    )  # fmt: skip


def test_a_waiting_message_expires_and_the_rest_of_its_time_is_told(clients: Clients) -> None:
    lasting: dict[str, Any] = {
        "clean_start": False, "properties": {"session_expiry_interval": 600},
    }  # fmt: skip
    client, other, name = clients.raw(**lasting), clients.raw("p"), clients.name
    client.subscribe(name)
    client.disconnect()
    for qos in (1, 2):
        other.publish(name, b"short", qos, message_expiry_interval=1)
        other.publish(name, b"long", qos, message_expiry_interval=60)
    clients.wait_on_the_brokers_clock(2)
    client = clients.raw(**lasting)
    got = [client.expect(p.Publish) for _ in range(2)]
    assert [(one.payload, one.qos) for one in got] == [(b"long", 1), (b"long", 2)]
    for publish in got:
        [left_s] = found(publish, "message_expiry_interval")
        assert 50 <= left_s <= 59
        client.acknowledge(publish)
    assert client.so_far() == []


def test_a_3_1_1_subscriber_gets_the_message_without_properties(clients: Clients) -> None:
    client, other, name = clients.raw(version=Version.V311), clients.raw("p"), clients.name
    client.subscribe(name, 1)
    other.publish(name, b"x", user_property=("a", "b"), content_type="t", message_expiry_interval=9)
    assert client.expect(p.Publish) == p.Publish(name, b"x", 1, packet_id=1)


def test_a_v5_subscriber_gets_a_3_1_1_message(clients: Clients) -> None:
    client, other, name = clients.raw(), clients.raw("p", Version.V311), clients.name
    client.subscribe(name, 1)
    other.publish(name, b"x")
    assert client.expect(p.Publish) == p.Publish(name, b"x", 1, packet_id=1)


def test_the_terms_are_in_the_connack(clients: Clients) -> None:
    connack = clients.raw().connack
    assert connack is not None
    assert found(connack, "maximum_packet_size") == [100_000]
    assert all(found(connack, name) != [0] for name in (
        "maximum_qos", "retain_available", "wildcard_subscription_available",
        "subscription_identifier_available", "shared_subscription_available",
    ))  # fmt: skip


@pytest.mark.parametrize(("asked_s", "told"), [(120, [60]), (0, [60]), (60, []), (30, [])])
def test_the_broker_bounds_the_keep_alive(
    clients: Clients, can: Capabilities, asked_s: int, told: list[int]
) -> None:
    connack = clients.raw(keep_alive=asked_s).connack
    assert connack is not None
    if not can.bounds_keep_alive:
        told = [] if asked_s else [65_535]
    assert found(connack, "server_keep_alive") == told
