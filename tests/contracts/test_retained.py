"""Retained messages: who gets them, when, and as what."""

from typing import Any

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from cloud.broker.codec import packets as p
from tests.contracts.capabilities import Capabilities
from tests.contracts.conftest import Clients
from tests.raw_client import found


def test_a_retained_message_waits_for_subscribers_until_cleared(
    clients: Clients, version: MQTTProtocolVersion
) -> None:
    client, name = clients.paho(version=version), clients.name
    client.publish(name + "/a", b"old", retain=True)
    client.publish(name + "/a", b"new", retain=True)
    client.subscribe(name + "/+")
    got = client.next()
    assert (got.payload, got.retain) == (b"new", 1)
    client.publish(name + "/a", b"", retain=True)
    assert client.next().payload == b""  # the clearing message is routed like any other
    client.unsubscribe(name + "/+")
    client.subscribe(name + "/#")
    client.expect_nothing()


def test_retained_messages_keep_their_qos_and_properties(clients: Clients) -> None:
    client, name = clients.paho(), clients.name
    pairs = [("a", "2"), ("c", "3")]
    for qos in range(3):
        client.publish(f"{name}/{qos}", b"x", qos, retain=True, UserProperty=pairs)
    client.subscribe(name + "/+", 2)
    got: list[Any] = [client.next() for _ in range(3)]
    assert sorted((one.topic[-1], one.qos, one.retain) for one in got) == [
        ("0", 0, 1), ("1", 1, 1), ("2", 2, 1),
    ]  # fmt: skip
    assert [one.properties.UserProperty for one in got] == [pairs] * 3


def test_an_empty_payload_clears_at_every_qos(
    clients: Clients, version: MQTTProtocolVersion
) -> None:
    client, name = clients.paho(version=version), clients.name
    for qos in range(3):
        client.publish(f"{name}/{qos}", b"x", qos, retain=True)
    for qos in range(3):
        client.publish(f"{name}/{qos}", b"", qos, retain=True)
    client.subscribe(name + "/+", 2)
    client.expect_nothing()


def test_retain_handling(clients: Clients) -> None:
    client, name = clients.paho(), clients.name
    client.publish(name, b"kept", retain=True)
    client.subscribe(name, retainHandling=2)
    client.expect_nothing()
    client.subscribe(name, retainHandling=1)  # not new any more
    client.expect_nothing()
    for _ in range(2):
        client.subscribe(name, retainHandling=0)
        assert client.next().retain
    client.unsubscribe(name)
    client.subscribe(name, retainHandling=1)  # new again
    assert client.next().retain
    client.expect_nothing()


@pytest.mark.parametrize("as_published", [True, False])
def test_retain_as_published(clients: Clients, *, as_published: bool) -> None:
    client, name = clients.paho(), clients.name
    client.subscribe(name, retainAsPublished=as_published)
    client.publish(name, b"live", retain=True)
    assert client.next().retain == as_published
    client.publish(name, b"live")
    assert not client.next().retain


def test_a_retained_message_expires(clients: Clients) -> None:
    client, name = clients.raw(), clients.name
    client.publish(f"{name}/short", b"x", retain=True, message_expiry_interval=1)
    client.publish(f"{name}/long", b"x", retain=True, message_expiry_interval=60)
    clients.wait_on_the_brokers_clock(2)
    client.subscribe(f"{name}/+")
    publish = client.expect(p.Publish)
    assert publish.topic == f"{name}/long"
    [left_s] = found(publish, "message_expiry_interval")
    assert 50 <= left_s <= 59  # what it waited is taken off (3.3.2-6)
    assert client.so_far() == []


def test_a_share_group_gets_no_retained_messages(clients: Clients, can: Capabilities) -> None:
    client, name = clients.raw(), clients.name
    client.publish(name, b"kept", retain=True)
    client.subscribe(f"$share/g/{name}")
    assert len(client.so_far()) == (0 if can.keeps_retained_from_share_groups else 1)  # 3.3.1.3
