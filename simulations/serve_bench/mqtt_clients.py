"""Devices that escalate, and an echo in a worker's place: plain MQTT 5 connections, QoS 1."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, cast

from cloud.broker.codec import encode as enc
from cloud.broker.codec import packets as p
from cloud.broker.codec.parser import Parser
from shared.ids import device_id
from shared.new_ids import new_sample_id
from shared.topics import ESCALATIONS_SHARED, answers, device_of_escalation, escalations

_PACKET_BYTES_MAX: Final = 1_048_576
_ID: Final = b"\xa2id\xc4\x10"
"""msgpack's key `id` and the head of its 16 bytes, as `shared.wire.envelope` packs both."""
_ID_BYTES: Final = 16
_PACKET_IDS: Final = 65_535


class Client(asyncio.Protocol):
    """`ready` once it has subscribed; `received` hears of each message, which it acknowledges."""

    def __init__(self, client_id: str, topic_filter: str) -> None:
        self._connect = p.Connect(client_id, clean_start=True)
        self._filter = topic_filter
        self._parser = Parser(_PACKET_BYTES_MAX, p.Version.V5)
        self._packet_id = 0
        self.transport: asyncio.Transport = cast("asyncio.Transport", None)
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_leaving = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(enc.encode(self._connect))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_leaving:
            raise ConnectionError(f"{self._connect.client_id}: the broker closed ({exc})")

    def data_received(self, data: bytes) -> None:
        out: list[bytes] = []
        for packet in self._parser.feed(data):
            match packet:
                case p.Publish():
                    out.append(enc.puback(packet.packet_id, 0, p.Version.V5))
                    self.received(packet, out)
                case p.Puback(reason=0):
                    pass
                case p.Connack(reason=0):
                    wanted = (p.Subscription(self._filter, 1),)
                    out.append(enc.encode(p.Subscribe(1, wanted)))
                case p.Suback(reasons=(1,)):
                    self.ready.set_result(None)
                case _:
                    raise ConnectionError(f"{self._connect.client_id}: {packet}")
        self.transport.writelines(out)

    def received(self, packet: p.Publish, out: list[bytes]) -> None:
        """Act on a message; what is put into `out` is written."""
        raise NotImplementedError

    def message(self, topic: bytes, payload: bytes) -> bytes:
        """Give a PUBLISH packet of QoS 1."""
        self._packet_id = self._packet_id % _PACKET_IDS + 1
        head = enc.publish_header(topic, len(payload), 0x32, self._packet_id, (), p.Version.V5)
        return head + payload

    def leave(self) -> None:
        self.is_leaving = True
        self.transport.write(enc.encode(p.Disconnect()))
        self.transport.close()


class Device(Client):
    """Sends a packed escalation again and again, each time under a new sample id."""

    def __init__(self, name: str, escalation: bytes, on_answer: Callable[[float], None]) -> None:
        """`on_answer` gets the seconds that an escalation took."""
        device = device_id(name)
        super().__init__(name, answers(device))
        self._topic = escalations(device).encode()
        before, _, after = escalation.partition(_ID)
        self._head, self._tail = before + _ID, after[_ID_BYTES:]
        self._sent: dict[bytes, float] = {}
        self._on_answer = on_answer
        self.window = 0
        """Escalations kept under way; 0 while it only sends what it is told to."""

    @property
    def under_way(self) -> int:
        return len(self._sent)

    def fill(self) -> None:
        """Have as many under way as the window holds."""
        missing = self.window - len(self._sent)
        if missing > 0:
            self.transport.writelines([self._escalation() for _ in range(missing)])

    def send(self) -> None:
        """Escalate once."""
        self.transport.write(self._escalation())

    def received(self, packet: p.Publish, out: list[bytes]) -> None:
        at = packet.payload.index(_ID) + len(_ID)
        sent = self._sent.pop(bytes(packet.payload[at : at + _ID_BYTES]))
        self._on_answer(time.perf_counter() - sent)
        if len(self._sent) < self.window:
            out.append(self._escalation())

    def _escalation(self) -> bytes:
        sample = new_sample_id().bytes
        self._sent[sample] = time.perf_counter()
        return self.message(self._topic, self._head + sample + self._tail)


class Echo(Client):
    """Stands where a worker does: what comes from a device goes back to it as it came."""

    def __init__(self) -> None:
        super().__init__("echo", ESCALATIONS_SHARED)

    def received(self, packet: p.Publish, out: list[bytes]) -> None:
        topic = answers(device_of_escalation(packet.topic)).encode()
        out.append(self.message(topic, packet.payload))
