"""What this project takes for granted about paho's inside; a new paho fails here, in words."""

import inspect
from importlib.metadata import version

import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from shared.mqtt.client import Client
from shared.mqtt.settings import LinkSettings

ANOTHER = f"paho-mqtt {version('paho-mqtt')}: look at shared/mqtt/client.py again, "


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("_create_socket", ["self"]),
        ("_packet_queue", ["self", "command", "packet", "mid", "qos", "info"]),
        ("_handle_publish", ["self"]),
        ("_handle_pubackcomp", ["self", "cmd"]),
    ],
)
def test_the_overridden_methods_are_there(method: str, parameters: list[str]) -> None:
    found = getattr(paho.Client, method, None)
    assert found is not None, ANOTHER + f"{method} is gone"
    assert list(inspect.signature(found).parameters) == parameters, ANOTHER + f"{method} changed"


@pytest.mark.parametrize(
    ("caller", "uses"),
    [
        ("reconnect", "self._create_socket()"),
        ("_send_publish", "self._packet_queue("),
        ("_send_command_with_mid", "self._packet_queue("),
        ("_send_simple_command", "self._packet_queue("),
        ("_packet_handle", "self._handle_publish()"),
        ("_packet_handle", 'self._handle_pubackcomp("PUBACK")'),
        ("_packet_read", "self._sock_recv("),
        ("_packet_read", "self._in_packet['packet'] += data"),
        ("_check_keepalive", "self._last_msg_out"),
        ("publish", "local_mid = self._mid_generate()"),
    ],
)
def test_paho_calls_them(caller: str, uses: str) -> None:
    assert uses in inspect.getsource(getattr(paho.Client, caller)), ANOTHER + f"at {caller}"


@pytest.mark.parametrize("expiry_s", [None, 0, 30, 2**32 - 1])
@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("size", [0, 1, 113, 114, 20_000])
def test_a_publish_is_what_paho_would_send(size: int, retain: bool, expiry_s: int | None) -> None:
    sent = list[bytes]()

    class Wire:
        def send(self, packet: bytes) -> int:
            sent.append(bytes(packet))
            return len(packet)

        def close(self) -> None:
            pass

    settings = LinkSettings(host="h", port=1, client_id="c")
    ours = Client(settings, None, Wire(), lambda *_: None, lambda *_: None)
    mid = ours.publish_qos1("straße/esc", bytes(size), retain=retain, expiry_s=expiry_s)
    ours._sock = Wire()  # paho sends nothing without one
    properties = Properties(PacketTypes.PUBLISH)
    if expiry_s is not None:
        properties.MessageExpiryInterval = expiry_s
    ours._send_publish(
        mid, "straße/esc".encode(), bytes(size), 1, retain, False, None, properties
    )  # paho's own, through the same queue
    assert sent[0] == sent[1]


def test_an_identifier_that_still_waits_is_not_given_again() -> None:
    class Wire:
        def send(self, packet: bytes) -> int:
            return len(packet)

    settings = LinkSettings(host="h", port=1, client_id="c")
    client = Client(settings, None, Wire(), lambda *_: None, lambda *_: None)
    given = [client.publish_qos1("t", b"", retain=False, expiry_s=None) for _ in range(65_535)]
    assert len(set(given)) == 65_535
    assert client.publish_qos1("t", b"", retain=False, expiry_s=None) is None
