"""A device's MQTT 5 connection in a few hundred bytes: QoS 1 both ways, no reconnecting."""

import asyncio
import time
from collections.abc import Iterable
from typing import cast

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.codec.parser import Parser
from simulations.light_devices.device import LightDevice, Message

_PACKET_BYTES_MAX = 64 * 1024
_IDS = 65_535


class Connection(asyncio.Protocol):
    """`ready` is set once its subscriptions are granted and its first reports are out."""

    def __init__(self, device: LightDevice, password: bytes | None = None) -> None:
        self.device = device
        will = device.will()
        self._connect = p.Connect(
            device.name, clean_start=True, username=device.name if password else None,
            password=password, will=p.Will(will.topic, will.payload, 1, retain=True),
        )  # fmt: skip
        self._parser = Parser(_PACKET_BYTES_MAX, p.Version.V5)
        self._last_id = 0
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.unacknowledged = 0
        self.refused = 0
        self.settled = asyncio.Event()
        """Set while nothing waits for its PUBACK."""
        self.settled.set()
        self.is_leaving = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(encode(self._connect))

    def connection_lost(self, exc: Exception | None) -> None:
        self.settled.set()
        if self.is_leaving:
            return
        lost = ConnectionError(f"{self.device.name}: the broker closed ({exc})")
        if self.ready.done():
            raise lost
        self.ready.set_exception(lost)

    def data_received(self, data: bytes) -> None:
        for packet in self._parser.feed(data):
            self._received(packet)

    def send(self, messages: Iterable[Message]) -> None:
        """QoS 1."""
        out = bytearray()
        for message in messages:
            self._last_id = self._last_id % _IDS + 1
            publish = p.Publish(
                message.topic, message.payload, 1, message.retain, packet_id=self._last_id
            )
            out += encode(publish)
            self.unacknowledged += 1
            self.settled.clear()
        self.transport.write(out)

    def leave(self) -> None:
        self.is_leaving = True
        self.transport.write(encode(p.Disconnect()))
        self.transport.close()

    def _received(self, packet: p.Packet) -> None:
        match packet:
            case p.Puback(reason=reason):
                self.refused += reason >= 0x80
                self.unacknowledged -= 1
                if not self.unacknowledged:
                    self.settled.set()
            case p.Publish(topic=topic, payload=payload, packet_id=packet_id):
                if packet.qos:
                    self.transport.write(encode(p.Puback(packet_id)))
                self.send(self.device.received(topic, payload, time.time()))
            case p.Connack(reason=0):
                ones = tuple(p.Subscription(each, 1) for each in self.device.subscriptions())
                self.transport.write(encode(p.Subscribe(1, ones)))
            case p.Suback(reasons=reasons) if max(reasons) < 0x80:
                self.send(self.device.connected(time.time()))
                self.ready.set_result(None)
            case p.Pingresp():
                pass
            case _:
                raise ConnectionError(f"{self.device.name}: {packet}")
