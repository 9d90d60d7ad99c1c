"""The clients of these suites: what they leave behind, and how their waits end."""

import os
import socket
from dataclasses import replace

import pytest

from cloud.broker.launch import BrokerAddress
from tests.brokers import Client
from tests.contracts.conftest import Clients


def descriptors() -> set[int]:
    return set(map(int, os.listdir("/proc/self/fd")))  # noqa: PTH208  numbers, not paths


@pytest.mark.parametrize("end", ["disconnect", "break_off"])
def test_a_client_gives_back_its_descriptors_at_once(
    broker: BrokerAddress, clients: Clients, end: str
) -> None:
    before = descriptors()
    client = Client(broker, clients.name)
    assert len(descriptors()) >= len(before) + 3  # its own, and paho's pair
    getattr(client, end)()
    assert descriptors() <= before
    del client  # only now may the collector have it


def test_a_client_that_finds_no_broker_leaves_nothing(
    broker: BrokerAddress, clients: Clients
) -> None:
    before = descriptors()
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nowhere = replace(broker, port=closed.getsockname()[1])
    with pytest.raises(OSError, match="refused") as caught:
        Client(nowhere, clients.name)
    assert descriptors() <= before
    del caught


def test_a_wait_ends_with_the_connection(clients: Clients) -> None:
    client = clients.paho()
    clients.paho().subscribe(clients.name)  # takes over
    with pytest.raises(AssertionError, match="no message: connection ended with"):
        client.next()
    with pytest.raises(AssertionError, match="no SUBACK: connection ended with"):
        client.subscribe(clients.name)
