"""Flow control both ways (4.9) and packet sizes both ways (3.1.2.11.4, 3.2.2.3.6)."""

import pytest

from cloud.broker.codec import packets as p
from tests.contracts.capabilities import Capabilities
from tests.contracts.conftest import Clients
from tests.raw_client import found


@pytest.mark.parametrize("qos", [1, 2])
def test_no_more_in_flight_than_the_client_takes(
    clients: Clients, can: Capabilities, qos: p.Qos
) -> None:
    client, other = clients.raw(properties={"receive_maximum": 2}), clients.paho("p")
    client.subscribe(clients.name)
    for index in range(5):
        other.publish(clients.name, str(index).encode(), qos)
    held = [one for one in client.so_far() if isinstance(one, p.Publish)]
    assert [one.payload for one in held] == [b"0", b"1"]
    for index in (2, 3, 4):
        client.acknowledge(held.pop(0))
        held.append(client.expect(p.Publish))
        assert held[-1].payload == str(index).encode()
        if can.keeps_to_the_window:
            assert client.so_far() == []


def test_qos_0_passes_a_full_window(clients: Clients) -> None:
    client, other = clients.raw(properties={"receive_maximum": 1}), clients.paho("p")
    client.subscribe(clients.name)
    for qos in (1, 1, 0):
        other.publish(clients.name, str(qos).encode(), qos)
    other.publish(clients.name + "/fence", b"")  # QoS 0 has no acknowledgement of its own
    got = [one for one in client.so_far() if isinstance(one, p.Publish)]
    assert [one.payload for one in got] == [b"1", b"0"]


def test_a_released_qos_2_message_still_fills_the_window(clients: Clients) -> None:
    client, other = clients.raw(properties={"receive_maximum": 1}), clients.paho("p")
    client.subscribe(clients.name)
    for _ in range(2):
        other.publish(clients.name, b"x", 2)
    publish = client.expect(p.Publish)
    client.send(p.Pubrec(publish.packet_id))
    client.expect(p.Pubrel)
    assert client.so_far() == []
    client.send(p.Pubcomp(publish.packet_id))
    assert client.expect(p.Publish).payload == b"x"


def test_more_open_qos_2_messages_than_allowed_close(clients: Clients, can: Capabilities) -> None:
    client = clients.raw()
    assert client.connack is not None
    [receive_maximum] = found(client.connack, "receive_maximum") or [65_535]
    for packet_id in range(1, receive_maximum + 2):
        client.send(p.Publish(clients.name, b"", 2, packet_id=packet_id))
    if can.keeps_to_its_receive_maximum:
        *answers, last = client.rest()
        assert isinstance(last, p.Disconnect)
        assert last.reason == 0x93
    else:
        answers = client.so_far()
        receive_maximum += 1
    assert [one.packet_id for one in answers if isinstance(one, p.Pubrec)] == list(
        range(1, receive_maximum + 1)
    )


def test_a_message_over_the_clients_packet_size_is_left_out(clients: Clients) -> None:
    client, other = clients.raw(properties={"maximum_packet_size": 64}), clients.paho("p")
    client.subscribe(clients.name)
    for size in (30, 64, 31):
        assert other.publish(clients.name, bytes(size)).value == 0
    got = []
    for _ in range(2):
        publish = client.expect(p.Publish)
        got.append(len(publish.payload))
        client.acknowledge(publish)
    assert got == [30, 31]
    assert client.so_far() == []


def test_a_packet_over_the_brokers_size_closes_with_its_reason(clients: Clients) -> None:
    client = clients.raw()
    client.send_bytes(b"\x30" + b"\x80\x80\x10")  # 256 KB announced, none of it sent
    assert client.end_reason() == 0x95
