"""Sessions: how long they live, what waits in them, who takes them over."""

from typing import Any

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from tests.brokers import MQTTv5
from tests.contracts.capabilities import Capabilities
from tests.contracts.conftest import Clients
from tests.raw_client import found


def test_a_persistent_session_gets_what_it_missed(
    clients: Clients, version: MQTTProtocolVersion
) -> None:
    lasting: dict[str, Any] = {"version": version, "clean": False, "expiry_s": 600}
    other, client, name = clients.paho("p"), clients.paho(**lasting), clients.name
    assert not client.session_present
    client.subscribe(name, 2)
    client.break_off()
    for qos in range(3):
        other.publish(name, str(qos).encode(), qos)
    back = clients.paho(**lasting)
    assert back.session_present
    got = [back.next() for _ in range(2)]
    assert [(one.payload, one.qos, one.dup) for one in got] == [
        (b"1", 1, False), (b"2", 2, False),
    ]  # fmt: skip
    back.expect_nothing()


def test_a_clean_start_forgets(clients: Clients, version: MQTTProtocolVersion) -> None:
    other, name = clients.paho("p"), clients.name
    client = clients.paho(version=version, clean=False, expiry_s=600)
    client.subscribe(name)
    client.disconnect()
    other.publish(name, b"missed")
    back = clients.paho(version=version, clean=True)
    assert not back.session_present
    other.publish(name, b"nobody subscribed")
    back.expect_nothing()


def test_without_an_expiry_a_session_ends_with_its_connection(clients: Clients) -> None:
    clients.paho(expiry_s=0).disconnect()
    assert not clients.paho(clean=False).session_present


def test_a_session_ends_when_the_expiry_last_told_is_over(clients: Clients) -> None:
    clients.paho("ends", clean=False, expiry_s=600).disconnect()
    returned = clients.paho("ends", clean=False, expiry_s=600)
    assert returned.session_present
    returned.disconnect(expiry_s=1)
    clients.paho("stays", clean=False, expiry_s=1).disconnect(expiry_s=600)
    clients.wait_on_the_brokers_clock(3)
    assert not clients.paho("ends", clean=False).session_present
    assert clients.paho("stays", clean=False).session_present


def test_disconnect_may_end_the_session(clients: Clients) -> None:
    clients.paho(clean=False, expiry_s=600).disconnect(expiry_s=0)
    assert not clients.paho(clean=False).session_present


def test_disconnect_may_not_raise_an_expiry_of_zero(clients: Clients) -> None:
    client = clients.raw()
    client.disconnect(session_expiry_interval=600)
    assert not clients.paho(clean=False).session_present


def test_a_connect_sets_the_expiry_anew(clients: Clients) -> None:
    clients.paho(clean=False, expiry_s=600).disconnect()
    second = clients.paho(clean=False, expiry_s=0)
    assert second.session_present
    second.disconnect()
    assert not clients.paho(clean=False).session_present


def test_a_second_connection_takes_over(
    clients: Clients, can: Capabilities, version: MQTTProtocolVersion
) -> None:
    first, second = clients.paho(version=version), clients.paho(version=version)
    told = version == MQTTv5 and can.says_taken_over
    assert first.ended().value == (0x8E if told else 0x80)  # 0x80: paho's word for a bare close
    second.subscribe(clients.name)
    second.publish(clients.name, b"x")
    assert second.next().payload == b"x"


def test_taking_over_keeps_the_session(clients: Clients, version: MQTTProtocolVersion) -> None:
    lasting: dict[str, Any] = {"version": version, "clean": False, "expiry_s": 600}
    first, other = clients.paho(**lasting), clients.paho("p")
    first.subscribe(clients.name)
    second = clients.paho(**lasting)
    assert second.session_present
    first.ended()
    other.publish(clients.name, b"x")
    assert second.next().payload == b"x"


def test_a_nameless_client_gets_a_name(clients: Clients) -> None:
    one, two = (clients.raw(client_id="") for _ in range(2))
    assert one.connack is not None
    assert two.connack is not None
    assert (one.connack.reason, two.connack.reason) == (0, 0)
    [first] = found(one.connack, "assigned_client_identifier")
    [second] = found(two.connack, "assigned_client_identifier")
    assert len({first, second, ""}) == 3


@pytest.mark.parametrize(("clean", "code"), [(True, 0), (False, 2)])
def test_a_nameless_3_1_1_client_cannot_keep_a_session(
    clients: Clients, *, clean: bool, code: int
) -> None:
    client = clients.raw(client_id="", version=Version.V311, clean_start=clean)
    assert client.connack == p.Connack(session_present=False, reason=code)
    if code:
        assert client.read() is None
