"""What this project takes for granted about paho's inside; a new paho fails here, in words."""

import inspect
from importlib.metadata import version

import paho.mqtt.client as paho
import pytest

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
        ("publish", "self._out_messages[message.mid] = message"),
    ],
)
def test_paho_calls_them(caller: str, uses: str) -> None:
    assert uses in inspect.getsource(getattr(paho.Client, caller)), ANOTHER + f"at {caller}"
