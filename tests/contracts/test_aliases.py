"""Topic aliases (3.3.2.3.4), from the client and towards it."""

from typing import Any

import pytest

from cloud.broker.codec import packets as p
from tests.contracts.capabilities import Capabilities
from tests.contracts.conftest import Clients
from tests.raw_client import found, props


def test_an_alias_stands_for_its_topic_until_it_is_set_anew(clients: Clients) -> None:
    client, name = clients.raw(), clients.name
    client.subscribe(name + "/#")
    for topic, told in (("a", "a"), ("a", ""), ("b", "b"), ("b", "")):
        client.publish(f"{name}/{told}" if told else "", b"x", topic_alias=1)
        publish = client.expect(p.Publish)
        assert (publish.topic, publish.properties) == (f"{name}/{topic}", ())  # 3.3.2-9
        client.acknowledge(publish)


def test_aliases_end_with_the_connection(clients: Clients) -> None:
    lasting: dict[str, Any] = {
        "clean_start": False, "properties": {"session_expiry_interval": 600},
    }  # fmt: skip
    client, name = clients.raw(**lasting), clients.name
    client.subscribe(name)
    client.publish(name, b"x", topic_alias=1)
    client.acknowledge(client.expect(p.Publish))
    client.disconnect()
    client = clients.raw(**lasting)
    client.send(p.Publish("", b"x", 0, properties=props(topic_alias=1)))
    assert client.end_reason() == 0x82  # 3.3.2-12


@pytest.mark.parametrize("alias", [0, 65_535])
def test_an_alias_out_of_bounds_closes(clients: Clients, can: Capabilities, alias: int) -> None:
    client, name = clients.raw(), clients.name
    client.send(p.Publish(name, b"x", 0, properties=props(topic_alias=alias)))
    unworded = alias == 0 and not can.words_alias_zero
    assert client.end_reason() == (0x81 if unworded else 0x94)


def test_the_broker_sets_aliases_where_the_client_takes_them(
    clients: Clients, can: Capabilities
) -> None:
    client, name = clients.raw(properties={"topic_alias_maximum": 1}), clients.name
    client.subscribe(name + "/#")
    for qos in (0, 1, 2):
        client.publish(f"{name}/often", b"x", qos)
    client.publish(f"{name}/other", b"x")
    got = [client.expect(p.Publish) for _ in range(4)]
    often = [(one.topic, found(one, "topic_alias")) for one in got[:3]]
    if not can.sets_aliases:
        assert often == [(f"{name}/often", [])] * 3
        return
    assert often == [(f"{name}/often", [1]), ("", [1]), ("", [1])]
    topic, alias = got[3].topic, found(got[3], "topic_alias")
    assert (topic, alias) in ((f"{name}/other", []), (f"{name}/other", [1]))


@pytest.mark.parametrize("asked", [{}, {"topic_alias_maximum": 0}], ids=["unsaid", "zero"])
def test_no_alias_reaches_a_client_that_takes_none(clients: Clients, asked: dict[str, int]) -> None:
    client, name = clients.raw(properties=asked), clients.name
    client.subscribe(name)
    for qos in (0, 1, 2):
        client.publish(name, b"x", qos)
        publish = client.expect(p.Publish)
        assert (publish.topic, publish.properties) == (name, ())


def test_a_new_connection_starts_without_aliases(clients: Clients) -> None:
    lasting: dict[str, Any] = {
        "clean_start": False,
        "properties": {"session_expiry_interval": 600, "topic_alias_maximum": 5},
    }
    client, other, name = clients.raw(**lasting), clients.paho("p"), clients.name
    client.subscribe(name)
    other.publish(name, b"x")
    sent = client.expect(p.Publish)
    client.break_off()
    client = clients.raw(**lasting)
    again = client.expect(p.Publish)
    assert (again.topic, again.packet_id, again.dup) == (name, sent.packet_id, True)
