"""What happens to exchanges that a broken connection interrupts (4.4), in both directions."""

from typing import Any

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from tests.contracts.conftest import Clients


@pytest.fixture
def lasting(version: MQTTProtocolVersion) -> dict[str, Any]:
    """Options of a raw client whose session stays."""
    spoken = Version(int(version))
    expiry = {"session_expiry_interval": 600} if spoken is Version.V5 else {}
    return {"version": spoken, "clean_start": False, "properties": expiry}


def test_what_was_not_acknowledged_comes_again_in_its_order(
    clients: Clients, lasting: dict[str, Any]
) -> None:
    other, client, name = clients.paho("p"), clients.raw(**lasting), clients.name
    client.subscribe(name)
    for index in range(6):
        other.publish(name, str(index).encode(), 1 + index % 2)
    first = [client.expect(p.Publish) for _ in range(6)]
    assert not any(one.dup for one in first)
    for index in (0, 3):  # one of each QoS is done
        client.acknowledge(first[index])
    client.so_far()
    client.break_off()
    client = clients.raw(**lasting)
    again = [client.expect(p.Publish) for _ in range(4)]
    assert [(one.payload, one.packet_id, one.dup) for one in again] == [
        (one.payload, one.packet_id, True) for one in first if one.payload not in (b"0", b"3")
    ]
    for publish in again:
        client.acknowledge(publish)
    assert client.so_far() == []


def test_a_qos_2_message_that_was_received_is_only_released_again(
    clients: Clients, lasting: dict[str, Any]
) -> None:
    other, client, name = clients.paho("p"), clients.raw(**lasting), clients.name
    client.subscribe(name)
    other.publish(name, b"x", 2)
    packet_id = client.expect(p.Publish).packet_id
    client.send(p.Pubrec(packet_id))
    assert client.expect(p.Pubrel) == p.Pubrel(packet_id)
    for _ in range(2):
        client.break_off()
        client = clients.raw(**lasting)
        assert client.expect(p.Pubrel) == p.Pubrel(packet_id)
    client.send(p.Pubcomp(packet_id))
    assert client.so_far() == []
    client.break_off()
    assert clients.raw(**lasting).so_far() == []


@pytest.mark.parametrize("step", ["publish", "release"])
def test_a_qos_2_message_sent_again_after_a_reconnect_counts_once(
    clients: Clients, lasting: dict[str, Any], step: str
) -> None:
    watcher, client, name = clients.paho("w"), clients.raw(**lasting), clients.name
    watcher.subscribe(name, 2)
    publish = p.Publish(name, b"once", 2, packet_id=7)
    client.send(publish)
    assert client.expect(p.Pubrec) == p.Pubrec(7)
    client.break_off()
    client = clients.raw(**lasting)
    if step == "publish":
        client.send(p.Publish(name, b"once", 2, dup=True, packet_id=7))
        assert client.expect(p.Pubrec) == p.Pubrec(7)
    client.send(p.Pubrel(7))
    assert client.expect(p.Pubcomp) == p.Pubcomp(7)
    assert watcher.next().payload == b"once"
    watcher.expect_nothing()
    client.send(publish)  # the id is free again: another message
    assert client.expect(p.Pubrec) == p.Pubrec(7)
    client.send(p.Pubrel(7))
    client.expect(p.Pubcomp)
    assert watcher.next().payload == b"once"


def test_a_qos_2_message_comes_once_however_often_its_subscriber_breaks_off(
    clients: Clients, lasting: dict[str, Any]
) -> None:
    other, client, name = clients.paho("p"), clients.raw(**lasting), clients.name
    client.subscribe(name)
    got: list[bytes] = []
    for index in range(8):
        other.publish(name, str(index).encode(), 2)
    due: dict[int, bytes] = {}
    for breaks_at in range(8):
        client.break_off()
        client = clients.raw(**lasting)
        for packet in client.so_far():
            match packet:
                case p.Publish():
                    due.setdefault(packet.packet_id, packet.payload)
                    if len(got) <= breaks_at:
                        got.append(due[packet.packet_id])
                        client.send(p.Pubrec(packet.packet_id))
                case p.Pubrel(packet_id):
                    client.send(p.Pubcomp(packet_id))
        for packet in client.so_far():
            assert isinstance(packet, p.Pubrel)  # answered on the next connection only
    assert got == [str(index).encode() for index in range(8)]


def test_nothing_is_sent_again_on_the_same_connection(
    clients: Clients, lasting: dict[str, Any]
) -> None:
    client, name = clients.raw(**lasting), clients.name
    client.subscribe(name)
    client.publish(name, b"x")
    client.expect(p.Publish)
    for _ in range(3):
        assert client.so_far() == []  # 4.4.0-1: only a reconnect makes it due again
