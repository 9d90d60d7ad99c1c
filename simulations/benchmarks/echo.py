"""The other end of the echo: `python -m simulations.benchmarks.echo HOST PORT`, until SIGTERM."""

import sys

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion


def _echo(client: paho.Client, _: object, message: paho.MQTTMessage) -> None:
    client.publish("bench/back", message.payload, 1)


def main() -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2, "bench-echo-there", protocol=paho.MQTTv5)
    client.on_message = _echo
    client.on_subscribe = lambda *_: print("ready", flush=True)
    client.connect(sys.argv[1], int(sys.argv[2]))
    client.subscribe("bench/there", 1)
    client.loop_forever()


if __name__ == "__main__":
    main()
