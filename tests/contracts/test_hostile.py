"""What must not disturb anybody else: garbage, silence, size and numbers."""

import pytest

from cloud.broker.codec.encode import encode
from cloud.broker.codec.packets import Connect, Disconnect, Publish
from tests.contracts.conftest import Clients

HOSTILE = {
    "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "publish first": encode(Publish("t", b"x")),
    "another protocol": encode(Connect("")).replace(b"\x04MQTT", b"\x04MQTX"),
    "a short protocol name": b"\x10\x0b\x00\x02hj\x05\x02\x00\x00\x00\x00\x00",
    "connect with reserved flag": b"\x10\x0d\x00\x04MQTT\x05\x01\x00\x00\x00\x00\x00",
    "wildcard in publish": encode(Connect("")) + encode(Publish("a/#", b"x")),
    "two connects": encode(Connect("")) * 2,
    "bad utf-8 topic": encode(Connect("")) + b"\x30\x05\x00\x02\xc3\x28\x00",
    "endless length": encode(Connect("")) + b"\x30\xff\xff\xff\xff\x7f",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_garbage_disturbs_nobody_else(clients: Clients, data: bytes) -> None:
    bystander, stranger = clients.paho(), clients.silent()
    bystander.subscribe(clients.name)
    stranger.send_bytes(data)
    stranger.rest()
    bystander.publish(clients.name, b"fine")
    assert bystander.next().payload == b"fine"


def test_an_oversized_packet_closes_only_its_connection(clients: Clients) -> None:
    bystander, big = clients.paho(), clients.raw("o")
    bystander.subscribe(clients.name)
    big.send_bytes(b"\x30" + b"\x80\x80\x10")  # 256 KB announced, none of it sent
    big.rest()
    bystander.publish(clients.name, b"fine")
    assert bystander.next().payload == b"fine"


def test_five_hundred_clients_at_once(clients: Clients) -> None:
    hub = clients.paho("hub")
    hub.subscribe(clients.name + "/+")
    crowd = [clients.raw(str(number)) for number in range(500)]
    for number, client in enumerate(crowd):
        client.send(Publish(f"{clients.name}/{number}", b"x", 1, packet_id=1))
    assert hub.payloads(500) == [b"x"] * 500
    assert all(len(client.so_far()) == 1 for client in crowd)
    for client in crowd:
        client.send(Disconnect())
    assert [client.rest() for client in crowd] == [[]] * 500
