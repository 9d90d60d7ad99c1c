"""Real brokers and clients for tests: `running_broker(kind, state_dir)` and `Client`."""

import asyncio
import contextlib
import queue
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from paho.mqtt.client import Client as Paho
from paho.mqtt.client import MQTTMessage, MQTTv5, MQTTv311
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from cloud.broker.launch import BrokerAddress, broker_running
from cloud.broker.settings import BrokerSettings

BrokerKind = Literal["embedded", "mosquitto"]
BROKER_KINDS: tuple[BrokerKind, ...] = ("embedded", "mosquitto")
TIMEOUT_S = 10.0
"""Deadline of every wait; none of them is a pause."""


@contextlib.contextmanager
def running_broker(kind: BrokerKind, state_dir: Path, **settings: Any) -> Iterator[BrokerAddress]:
    """Run a real broker on a free port for tests that are not asyncio; more `settings` as named."""
    if kind == "mosquitto" and not (
        shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    ):
        raise AssertionError("these tests need Mosquitto: apt-get install mosquitto")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name=f"{kind}-owner")
    thread.start()
    try:
        running = broker_running(BrokerSettings(kind=kind, state_dir=state_dir, **settings))
        address = asyncio.run_coroutine_threadsafe(running.__aenter__(), loop).result(30)
        try:
            yield address
        finally:
            closing = running.__aexit__(None, None, None)
            asyncio.run_coroutine_threadsafe(closing, loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def properties(packet: int, **values: Any) -> Properties:
    """Make paho properties from keywords."""
    out = Properties(packet)  # type: ignore[no-untyped-call]  # paho leaves it bare
    for name, value in values.items():
        setattr(out, name, value)
    return out


class Client:
    """A paho client on its own thread whose waits have deadlines and which never reconnects."""

    def __init__(
        self,
        address: BrokerAddress,
        client_id: str,
        *,
        version: MQTTProtocolVersion = MQTTv5,
        clean: bool = True,
        expiry_s: int = 0,
        keepalive_s: int = 60,
        will: tuple[str, bytes] | None = None,
        will_delay_s: int = 0,
        manual_ack: bool = False,
        receive_maximum: int | None = None,
    ) -> None:
        self.version = version
        more: dict[str, Any] = {} if version == MQTTv5 else {"clean_session": clean}
        self.paho = Paho(
            CallbackAPIVersion.VERSION2, client_id, protocol=version, manual_ack=manual_ack,
            reconnect_on_failure=False, **more,
        )  # fmt: skip
        self.messages: queue.SimpleQueue[MQTTMessage] = queue.SimpleQueue()
        self.session_present = False
        self._connected: queue.SimpleQueue[ReasonCode] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._end_reason: ReasonCode | None = None
        self._acks: queue.SimpleQueue[list[ReasonCode]] = queue.SimpleQueue()
        self.paho.on_connect = self._on_connect
        self.paho.on_disconnect = self._on_disconnect
        self.paho.on_message = lambda _c, _u, message: self.messages.put(message)
        self.paho.on_subscribe = lambda _c, _u, _m, reasons, _p: self._acks.put(reasons)
        self.paho.on_publish = lambda _c, _u, _m, reason, _p: self._acks.put([reason])
        if will is not None:
            delay = properties(PacketTypes.WILLMESSAGE, WillDelayInterval=will_delay_s)
            self.paho.will_set(will[0], will[1], 1, properties=delay if version == MQTTv5 else None)
        self._connect: dict[str, Any] = {}
        if version == MQTTv5:
            asked: dict[str, Any] = {"SessionExpiryInterval": expiry_s}
            if receive_maximum is not None:
                asked["ReceiveMaximum"] = receive_maximum
            self._connect = {
                "clean_start": clean, "properties": properties(PacketTypes.CONNECT, **asked),
            }  # fmt: skip
        self.paho.connect(address.host, address.port, keepalive_s, **self._connect)
        self.paho.loop_start()
        self.reason = self._connected.get(timeout=TIMEOUT_S)

    def _on_connect(self, _c: Paho, _u: object, flags: Any, reason: ReasonCode, _p: object) -> None:
        self.session_present = flags.session_present
        self._connected.put(reason)

    def _on_disconnect(self, _c: Paho, _u: object, _f: Any, reason: ReasonCode, _p: object) -> None:
        self._end_reason = reason
        self._ended.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disconnect()

    def subscribe(
        self, topic_filter: str, qos: int = 1, identifier: int = 0, **options: Any
    ) -> ReasonCode:
        """Subscribe and give the reason from the SUBACK."""
        if self.version == MQTTv5:
            named = {"SubscriptionIdentifier": identifier} if identifier else {}
            found = properties(PacketTypes.SUBSCRIBE, **named)
            wanted = SubscribeOptions(qos, **options)
            self.paho.subscribe(topic_filter, options=wanted, properties=found)
        else:
            self.paho.subscribe(topic_filter, qos)
        return self._acks.get(timeout=TIMEOUT_S)[0]

    def publish(self, topic: str, payload: bytes, qos: int = 1, **more: Any) -> ReasonCode:
        """Publish and give the reason its acknowledgement carried."""
        retain = more.pop("retain", False)
        found = properties(PacketTypes.PUBLISH, **more) if more else None
        self.paho.publish(topic, payload, qos, retain, found)
        return self._acks.get(timeout=TIMEOUT_S)[0]

    def next(self) -> MQTTMessage:
        """Give the next message."""
        return self.messages.get(timeout=TIMEOUT_S)

    def payloads(self, count: int) -> list[bytes]:
        """Give the payloads of the next messages."""
        return [bytes(self.next().payload) for _ in range(count)]

    def expect_nothing(self) -> None:
        """Say that nothing is on its way: a message of our own, sent after it, comes first."""
        topic = f"fence/{self.paho._client_id.decode()}"
        self.subscribe(topic)
        self.publish(topic, b"fence")
        first = self.next()
        assert first.topic == topic, f"{first.topic} came unasked"

    def ended(self) -> ReasonCode:
        """Give why the connection ended, once it has."""
        assert self._ended.wait(TIMEOUT_S), "the connection is still open"
        assert self._end_reason is not None
        return self._end_reason

    def break_off(self) -> None:
        """Lose the connection without DISCONNECT."""
        sock = self.paho.socket()
        assert isinstance(sock, socket.socket)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
        self.ended()
        self.paho.loop_stop()

    def disconnect(self) -> None:
        """Leave in good order; nothing happens if the connection is gone."""
        if not self._ended.is_set():
            self.paho.disconnect()
            self.ended()
        self.paho.loop_stop()


__all__ = ["BROKER_KINDS", "BrokerKind", "Client", "MQTTv5", "MQTTv311", "running_broker"]
