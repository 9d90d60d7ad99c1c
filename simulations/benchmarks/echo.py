"""The other end of the echo: `python -m simulations.benchmarks.echo HOST PORT`, until SIGTERM."""

import socket
import sys

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion


def no_delay(_: paho.Client, __: object, sock: "paho.SocketLike") -> None:
    """Without it paho waits for delayed acknowledgements, 40 ms a trip: no floor at all."""
    assert isinstance(sock, socket.socket)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _echo(client: paho.Client, _: object, message: paho.MQTTMessage) -> None:
    client.publish("bench/back", message.payload, 1)


def main() -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2, "bench-echo-there", protocol=paho.MQTTv5)
    client.on_message = _echo
    client.on_subscribe = lambda *_: print("ready", flush=True)
    client.on_socket_open = no_delay
    client.connect(sys.argv[1], int(sys.argv[2]))
    client.subscribe("bench/there", 1)
    client.loop_forever()


if __name__ == "__main__":
    main()
