"""Real brokers and clients for tests: `running_broker(kind, state_dir)` and `Client`.

`raw_client.RawClient` is for what paho cannot say, or must not say by itself.
"""

import asyncio
import contextlib
import itertools
import queue
import shutil
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, Self, cast

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
UNSUBSCRIBED = ReasonCode(PacketTypes.UNSUBACK, "Success")
"""3.1.1 has no reasons in UNSUBACK."""


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
    """A paho client on its own thread whose waits have deadlines and which never reconnects.

    A wait ends with an AssertionError as soon as the connection does. Whoever makes one closes it:
    paho leaves its pair of wake-up sockets to the garbage collector, and its `select` refuses
    descriptors from 1,024 up, so a few hundred forgotten clients make the next one deaf.
    """

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
        username: str | None = None,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.version = version
        more: dict[str, Any] = {} if version == MQTTv5 else {"clean_session": clean}
        self.paho = Paho(
            CallbackAPIVersion.VERSION2, client_id, protocol=version, manual_ack=manual_ack,
            reconnect_on_failure=False, **more,
        )  # fmt: skip
        self.session_present = False
        self.reason: ReasonCode | None = None
        self._messages: queue.SimpleQueue[MQTTMessage | None] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._answers: dict[int, ReasonCode] = {}
        self._end_reason: ReasonCode | None = None
        self.paho.on_connect = self._on_connect
        self.paho.on_disconnect = self._on_disconnect
        self.paho.on_message = lambda _c, _u, message: self._messages.put(message)
        self.paho.on_subscribe = lambda _c, _u, mid, reasons, _p: self._answered(mid, reasons[0])
        self.paho.on_unsubscribe = lambda _c, _u, mid, _r, _p: self._answered(mid, UNSUBSCRIBED)
        self.paho.on_publish = lambda _c, _u, mid, reason, _p: self._answered(mid, reason)
        if will is not None:
            delay = properties(PacketTypes.WILLMESSAGE, WillDelayInterval=will_delay_s)
            self.paho.will_set(will[0], will[1], 1, properties=delay if version == MQTTv5 else None)
        if username is not None:
            self.paho.username_pw_set(username, password)
        if tls is not None:
            self.paho.tls_set_context(tls)
        connect: dict[str, Any] = {}
        if version == MQTTv5:
            asked: dict[str, Any] = {"SessionExpiryInterval": expiry_s}
            if receive_maximum is not None:
                asked["ReceiveMaximum"] = receive_maximum
            connect = {
                "clean_start": clean, "properties": properties(PacketTypes.CONNECT, **asked),
            }  # fmt: skip
        try:
            self.paho.connect(address.host, address.port, keepalive_s, **connect)
            self.paho.loop_start()
            self._wait(lambda: self.reason is not None, "CONNACK")
        except BaseException:
            self._close()
            raise

    def _on_connect(self, _c: Paho, _u: object, flags: Any, reason: ReasonCode, _p: object) -> None:
        with self._changed:
            self.session_present = flags.session_present
            self.reason = reason
            self._changed.notify_all()

    def _on_disconnect(self, _c: Paho, _u: object, _f: Any, reason: ReasonCode, _p: object) -> None:
        with self._changed:
            self._end_reason = reason
            self._changed.notify_all()
        self._messages.put(None)

    def _answered(self, mid: int, reason: ReasonCode) -> None:
        with self._changed:
            self._answers[mid] = reason
            self._changed.notify_all()

    def _wait(self, until: Callable[[], bool], what: str) -> None:
        """Wait with the deadline, or until the connection ends."""
        with self._changed:
            self._changed.wait_for(lambda: until() or self._end_reason is not None, TIMEOUT_S)
            if not until():
                raise AssertionError(f"no {what}: connection ended with {self._end_reason}")

    def _answer(self, mid: int | None, what: str) -> ReasonCode:
        assert mid is not None, f"no {what}: connection ended with {self._end_reason}"
        self._wait(lambda: mid in self._answers, what)
        return self._answers.pop(mid)

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
            _, mid = self.paho.subscribe(topic_filter, options=wanted, properties=found)
        else:
            _, mid = self.paho.subscribe(topic_filter, qos)
        return self._answer(mid, "SUBACK")

    def unsubscribe(self, topic_filter: str) -> None:
        """Unsubscribe and wait for the UNSUBACK."""
        _, mid = self.paho.unsubscribe(topic_filter)
        self._answer(mid, "UNSUBACK")

    def publish(self, topic: str, payload: bytes, qos: int = 1, **more: Any) -> ReasonCode:
        """Publish and give the reason its acknowledgement carried."""
        retain = more.pop("retain", False)
        found = properties(PacketTypes.PUBLISH, **more) if more else None
        sent = self.paho.publish(topic, payload, qos, retain, found)
        return self._answer(sent.mid, "answer to PUBLISH")

    def next(self) -> MQTTMessage:
        """Give the next message."""
        message = self._messages.get(timeout=TIMEOUT_S)
        if message is None:
            self._messages.put(None)
            raise AssertionError(f"no message: connection ended with {self._end_reason}")
        return message

    def payloads(self, count: int) -> list[bytes]:
        """Give the payloads of the next messages."""
        return [bytes(self.next().payload) for _ in range(count)]

    def payloads_until(self, last: bytes) -> list[bytes]:
        """Give the payloads of the next messages up to this one, which stays out."""
        return list(iter(lambda: bytes(self.next().payload), last))

    def so_far(self) -> list[MQTTMessage]:
        """Give what was on its way: all that comes before a message of our own, sent now."""
        topic = f"fence/{self.paho._client_id.decode()}"
        self.subscribe(topic)
        self.publish(topic, b"fence")
        return list(itertools.takewhile(lambda one: one.topic != topic, iter(self.next, None)))

    def expect_nothing(self) -> None:
        """Say that nothing is on its way."""
        came = [one.topic for one in self.so_far()]
        assert not came, f"{came} came unasked"

    def ended(self) -> ReasonCode:
        """Give why the connection ended, once it has."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._end_reason is not None, TIMEOUT_S):
                raise AssertionError("the connection is still open")
        assert self._end_reason is not None
        return self._end_reason

    def break_off(self) -> None:
        """Lose the connection without DISCONNECT."""
        self._shut()
        self.ended()
        self._close()

    def disconnect(self, expiry_s: int | None = None) -> None:
        """Leave in good order; nothing happens if the connection is gone."""
        try:
            if self._end_reason is None:
                changed = {} if expiry_s is None else {"SessionExpiryInterval": expiry_s}
                found = properties(PacketTypes.DISCONNECT, **changed) if changed else None
                self.paho.disconnect(properties=found)
                self.ended()
        finally:
            self._close()

    def _shut(self) -> None:
        sock = self.paho.socket()
        if sock is not None:
            with contextlib.suppress(OSError):
                cast("socket.socket", sock).shutdown(socket.SHUT_RDWR)

    def _close(self) -> None:
        """Give back every descriptor, whatever state the connection is in."""
        self._shut()
        self.paho.loop_stop()
        self.paho._reset_sockets()


__all__ = ["BROKER_KINDS", "BrokerKind", "Client", "MQTTv5", "MQTTv311", "running_broker"]
