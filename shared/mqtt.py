"""paho-mqtt on the event loop: one link that connects, stays connected, and counts.

No thread: the loop watches paho's socket, so a message reaches its handler without a hop. paho
never queues here: `publish` refuses when the link is down or its window is full, because the
outbox is the queue. Each connection gets a client of its own, so nothing that paho keeps across
a reconnect can be sent twice or all at once (FINDINGS 2 lists what it does otherwise).
"""

import asyncio
import logging
import random
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar
from urllib.parse import urlsplit

import paho.mqtt.client as paho
from paho.mqtt import MQTTException
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from shared.errors import Disconnected, Malformed, Overloaded

log = logging.getLogger(__name__)

NO_SUBSCRIBERS = 0x10  # MQTT 5.0, section 3.4.2.1: accepted, but nobody listens
_MISC_S = 1.0  # paho's keepalive looks at its clock in `loop_misc`, at best once a second
_CONNECT_S = 10.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LinkSettings:
    host: str
    port: int
    client_id: str
    username: str | None = None
    password: str | None = None
    tls: bool = False
    tls_ca: str | None = None  # PEM file; the system's store when None
    tls_certificate: str | None = None
    tls_key: str | None = None
    keepalive_s: int = 30
    session_expiry_s: int = 3600
    window: int = 20  # publishes without PUBACK
    receive_max: int = 256  # deliveries that the broker may send before we acknowledge
    backoff_s_min: float = 0.2
    backoff_s_max: float = 30.0


@dataclass(frozen=True, slots=True)
class Will:
    topic: str
    payload: bytes
    retain: bool = True


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message that came in; `ack` it when it has been applied, never before."""

    topic: str
    payload: bytes
    ack: Callable[[], None]


def broker_address(url: str) -> tuple[str, int, bool]:
    """Host, port and whether TLS is used, from `mqtt://host[:1883]` or `mqtts://host[:8883]`."""
    parts = urlsplit(url)
    if parts.scheme not in ("mqtt", "mqtts") or not parts.hostname:
        raise Malformed(f"broker url {url!r}: write mqtt://host:port or mqtts://host:port")
    try:
        port = parts.port
    except ValueError as error:
        raise Malformed(f"broker url {url!r}: {error}") from error
    tls = parts.scheme == "mqtts"
    return parts.hostname, port or (8883 if tls else 1883), tls


class Link:
    def __init__(
        self,
        settings: LinkSettings,
        *,
        subscriptions: tuple[str, ...],
        on_delivery: Callable[[Delivery], None],
        on_up: Callable[[bool], None],
        on_down: Callable[[], None],
        will: Will | None = None,
    ) -> None:
        """Handlers run on the event loop; `on_up` gets whether the broker kept our session."""
        self._settings, self._subscriptions, self._will = settings, subscriptions, will
        self._on_delivery, self._on_up, self._on_down = on_delivery, on_up, on_down
        self._client: paho.Client | None = None
        self._socket: socket.socket | None = None
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._window = settings.window
        self._up = self._writing = self._session_present = False
        self._drained, self._lost = asyncio.Event(), asyncio.Event()
        self._why = ""
        self._failure: BaseException | None = None  # of a handler: a bug, so `run` raises it

    @property
    def up(self) -> bool:
        return self._up

    @property
    def room(self) -> int:
        """How many more publishes the window takes now; 0 while the link is down."""
        return max(0, self._window - len(self._waiting)) if self._up else 0

    def publish(
        self, topic: str, payload: bytes, *, expiry_s: int | None = None, retain: bool = False
    ) -> "asyncio.Future[int]":
        """QoS 1; the future holds PUBACK's reason code (0x10: nobody subscribes).

        The future fails with `Disconnected` when the link is lost before PUBACK. Raises
        `Disconnected` while the link is down and `Overloaded` when the window is full.
        """
        if self._client is None or not self._up:
            raise Disconnected(f"no link to {self._settings.host}:{self._settings.port}")
        if self.room == 0:
            raise Overloaded(f"{len(self._waiting)} publishes already wait for their PUBACK")
        properties = None if expiry_s is None else _expiry(expiry_s)
        info = self._client.publish(topic, payload, 1, retain, properties)
        acknowledged: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        acknowledged.add_done_callback(_retrieve)
        self._waiting[info.mid] = acknowledged
        self._flush()
        return acknowledged

    def drain(self) -> None:
        """Take nothing new; `run` then waits for what is in flight and disconnects."""
        self._drained.set()
        if not self._waiting:
            self._lost.set()

    async def run(self) -> None:
        """Connect and reconnect (full-jitter backoff) until `drain`; then disconnect cleanly."""
        delay_s, reported = self._settings.backoff_s_min, False
        while not self._drained.is_set():
            was_up = await self._one_connection()
            if self._drained.is_set():
                break
            if was_up or not reported:  # once when lost, once when back (`_granted`)
                log.warning("link_down", extra={"broker": self._where, "why": self._why})
                reported = True
            if was_up:
                delay_s = self._settings.backoff_s_min
            # Full jitter: AWS Architecture Blog, "Exponential Backoff and Jitter", 2015.
            pause = random.uniform(0, delay_s)  # noqa: S311  spreading load, not secrets
            delay_s = min(delay_s * 2, self._settings.backoff_s_max)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._drained.wait(), pause)

    @property
    def _where(self) -> str:
        return f"{self._settings.host}:{self._settings.port}"

    async def _one_connection(self) -> bool:
        """Connect, serve until the link is lost or drained; whether it was ever up."""
        client, s = self._new_client(), self._settings
        try:
            # Name look-up, TCP and TLS handshakes block, so they happen in a thread.
            await asyncio.to_thread(
                client.connect, s.host, s.port, s.keepalive_s,
                clean_start=False, properties=_connect_properties(s),
            )  # fmt: skip
        except (OSError, ValueError) as error:
            self._why = str(error) or type(error).__name__
            return False
        sock = client.socket()
        if not isinstance(sock, socket.socket):
            self._why = "closed during connect"
            return False
        self._lost.clear()
        self._client, self._socket = client, sock
        loop = asyncio.get_running_loop()
        loop.add_reader(sock, self._readable)
        deadline = loop.time() + _CONNECT_S
        was_up = False
        try:
            self._readable()  # TLS may already hold bytes that no event will announce
            while not self._lost.is_set() and not (self._drained.is_set() and not self._waiting):
                if not was_up and loop.time() > deadline:
                    self._why = f"no CONNACK and SUBACK within {_CONNECT_S:.0f} s"
                    break
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._lost.wait(), _MISC_S)
                was_up = was_up or self._up
                client.loop_misc()
                self._flush()
            was_up = was_up or self._up
        finally:
            self._close(client)
        if self._failure is not None:
            raise self._failure
        return was_up

    def _new_client(self) -> paho.Client:
        s = self._settings
        client = paho.Client(
            CallbackAPIVersion.VERSION2, s.client_id, protocol=paho.MQTTv5, manual_ack=True
        )
        client.connect_timeout = _CONNECT_S
        client.max_inflight_messages_set(0)  # the window is ours; paho must never queue
        if s.username is not None:
            client.username_pw_set(s.username, s.password)
        if s.tls:
            context = ssl.create_default_context(cafile=s.tls_ca)
            if s.tls_certificate is not None:
                context.load_cert_chain(s.tls_certificate, s.tls_key)
            client.tls_set_context(context)
        if self._will is not None:
            client.will_set(self._will.topic, self._will.payload, 1, self._will.retain)
        client.on_socket_open = _no_delay
        client.on_socket_close = self._closing
        client.on_connect = self._connected
        client.on_subscribe = self._granted
        client.on_publish = self._acknowledged
        client.on_message = self._received
        client.on_disconnect = self._disconnected
        return client

    def _connected(
        self, client: paho.Client, _: object, flags: paho.ConnectFlags, reason: ReasonCode,
        properties: Properties | None,
    ) -> None:  # fmt: skip
        if reason.is_failure:
            self._why = f"broker refused the connection: {reason}"
            self._lost.set()
            return
        self._session_present = flags.session_present
        server_window = getattr(properties, "ReceiveMaximum", self._settings.window)
        self._window = min(self._settings.window, server_window)
        if self._subscriptions:
            client.subscribe([(t, SubscribeOptions(qos=1)) for t in self._subscriptions])
        else:
            self._is_up()

    def _granted(
        self, _: paho.Client, __: object, ___: int, reasons: list[ReasonCode], ____: object
    ) -> None:
        refused = [
            f"{t}: {r}" for t, r in zip(self._subscriptions, reasons, strict=False) if r.is_failure
        ]
        if refused:
            self._why = f"broker refused subscriptions: {'; '.join(refused)}"
            self._lost.set()
        else:
            self._is_up()

    def _is_up(self) -> None:
        self._up = True
        log.info("link_up", extra={"broker": self._where, "session_kept": self._session_present})
        self._call(self._on_up, self._session_present)

    def _acknowledged(
        self, _: paho.Client, __: object, mid: int, reason: ReasonCode, ___: object
    ) -> None:
        acknowledged = self._waiting.pop(mid, None)
        if acknowledged is not None and not acknowledged.done():
            acknowledged.set_result(reason.value)
        if self._drained.is_set() and not self._waiting:
            self._lost.set()

    def _received(self, client: paho.Client, _: object, message: paho.MQTTMessage) -> None:
        mid, qos = message.mid, message.qos

        def ack() -> None:
            if self._client is client:  # an older connection's delivery comes again by itself
                client.ack(mid, qos)
                self._flush()

        self._call(self._on_delivery, Delivery(message.topic, bytes(message.payload), ack))

    def _disconnected(
        self, _: paho.Client, __: object, ___: object, reason: ReasonCode, ____: object
    ) -> None:
        self._why = self._why or str(reason)
        self._lost.set()

    def _call(self, handler: Callable[[T], None], value: T) -> None:
        try:
            handler(value)
        except BaseException as error:  # noqa: BLE001  raised again by `run`, not lost in paho
            self._failure = error
            self._lost.set()

    def _readable(self) -> None:
        """Take what the socket has; a plain socket's reader fires again while there is more."""
        client, sock = self._client, self._socket
        if client is None or sock is None:
            return
        try:
            client.loop_read()
            while isinstance(sock, ssl.SSLSocket) and self._socket is sock and sock.pending():
                client.loop_read()
        except (ValueError, IndexError, struct.error, MQTTException) as error:
            self._why = f"the broker sent what is no MQTT: {error}"
            self._lost.set()
        self._flush()

    def _flush(self) -> None:
        """Write what paho holds; when the socket is full, go on once it is writable."""
        client, sock = self._client, self._socket
        if client is None or sock is None:
            return
        if client.want_write():
            client.loop_write()
        wants = self._socket is sock and client.want_write()
        if wants == self._writing:
            return
        self._writing = wants
        loop = asyncio.get_running_loop()
        if wants:
            loop.add_writer(sock, self._flush)
        elif self._socket is sock:
            loop.remove_writer(sock)

    def _closing(self, _: paho.Client, __: object, sock: "paho.SocketLike") -> None:
        """Paho is about to close the socket: stop watching it while it still has its number."""
        if self._socket is sock:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket)
            loop.remove_writer(self._socket)
            self._socket, self._writing = None, False
            self._lost.set()

    def _close(self, client: paho.Client) -> None:
        was_up, self._up = self._up, False
        if self._socket is not None:
            client.disconnect()
            self._flush()
        client._sock_close()  # noqa: SLF001  paho has no public way to close without a loop
        self._client = None
        waiting, self._waiting = self._waiting, {}
        for acknowledged in waiting.values():
            if not acknowledged.done():
                acknowledged.set_exception(Disconnected(f"the link to {self._where} was lost"))
        if was_up:
            self._on_down()


def _connect_properties(settings: LinkSettings) -> Properties:
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho is untyped here
    properties.SessionExpiryInterval = settings.session_expiry_s
    properties.ReceiveMaximum = settings.receive_max
    return properties


@lru_cache(maxsize=64)
def _expiry(expiry_s: int) -> Properties:
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho is untyped here
    properties.MessageExpiryInterval = expiry_s
    return properties


def _no_delay(_: paho.Client, __: object, sock: "paho.SocketLike") -> None:
    if isinstance(sock, socket.socket):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _retrieve(acknowledged: "asyncio.Future[int]") -> None:
    """Mark a failure as seen: not every caller waits for its PUBACK."""
    if not acknowledged.cancelled():
        acknowledged.exception()
