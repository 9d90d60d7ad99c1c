"""One link to the broker, on the event loop: it connects, stays connected, and counts.

Paho never queues here: `publish` refuses when the link is down or its window is full, because the
outbox is the queue. Each connection gets a client of its own, so nothing that paho keeps across
a reconnect can be sent twice or all at once.
"""

import asyncio
import logging
import random
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import paho.mqtt.client as paho
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from shared.errors import Disconnected, Overloaded
from shared.mqtt.client import NO_MQTT, Client
from shared.mqtt.settings import LinkSettings, Will
from shared.mqtt.wire import Wire

log = logging.getLogger(__name__)

NO_SUBSCRIBERS = 0x10  # MQTT 5.0, section 3.4.2.1: accepted, but nobody listens
_MISC_S = 1.0  # paho's keepalive looks at its clock in `loop_misc`, at best once a second
_CONNECT_S = 10.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message that came in; `ack` it when it has been applied, never before."""

    topic: str
    payload: bytes
    ack: Callable[[], None]


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
        self._client: Client | None = None
        self._waiting: dict[int, asyncio.Future[int]] = {}
        self._window = settings.window
        self._up = self._session_present = False
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
        mid = self._client.publish_qos1(topic, payload, retain=retain, expiry_s=expiry_s)
        if mid is None:
            raise Overloaded("65,535 publishes later an old one still waits for its PUBACK")
        acknowledged: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        acknowledged.add_done_callback(_retrieve)
        self._waiting[mid] = acknowledged
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
            with suppress(TimeoutError):  # not `wait_for`: until Python 3.12 it swallows a cancel
                async with asyncio.timeout(pause):
                    await self._drained.wait()

    @property
    def _where(self) -> str:
        return f"{self._settings.host}:{self._settings.port}"

    async def _one_connection(self) -> bool:
        """Connect, serve until the link is lost or drained; whether it was ever up."""
        self._lost.clear()
        self._why = ""
        wire = Wire(self._readable, self._lose)
        was_up = False
        try:
            if await self._connects(wire):
                client = self._client = Client(
                    self._settings, self._will, wire, self._received, self._acknowledged
                )
                client.on_connect, client.on_subscribe = self._connected, self._granted
                client.on_disconnect = self._disconnected
                client.open()
                was_up = await self._serve(client)
        finally:
            self._close()
            await wire.closed()
        if self._failure is not None:
            raise self._failure
        return was_up

    async def _connects(self, wire: Wire) -> bool:
        """Whether it did; `drain` ends the attempt."""
        s = self._settings
        try:
            tls = await asyncio.to_thread(_context, s) if s.tls else None  # it reads files
        except OSError as error:
            self._why = f"TLS files {s.tls_ca}, {s.tls_certificate}, {s.tls_key}: {error}"
            return False
        connecting = asyncio.ensure_future(wire.connect(s.host, s.port, tls))
        drained = asyncio.ensure_future(self._drained.wait())
        try:
            done, _ = await asyncio.wait(
                {connecting, drained}, timeout=_CONNECT_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            drained.cancel()
            connecting.cancel()  # nothing happens to one that is done
        if connecting not in done:
            self._why = f"no connection within {_CONNECT_S:.0f} s"
            return False
        try:
            connecting.result()
        except OSError as error:
            self._why = str(error) or type(error).__name__
            return False
        return True

    async def _serve(self, client: Client) -> bool:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _CONNECT_S
        was_up = False
        while not self._lost.is_set() and not (self._drained.is_set() and not self._waiting):
            if not was_up and loop.time() > deadline:
                self._why = f"no CONNACK and SUBACK within {_CONNECT_S:.0f} s"
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(_MISC_S):
                    await self._lost.wait()
            was_up = was_up or self._up
            client.loop_misc()
        return was_up or self._up

    def _connected(
        self, client: paho.Client, _: object, flags: paho.ConnectFlags, reason: ReasonCode,
        properties: Properties | None,
    ) -> None:  # fmt: skip
        if reason.is_failure:
            self._lose(f"broker refused the connection: {reason}")
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
            self._lose(f"broker refused subscriptions: {'; '.join(refused)}")
        else:
            self._is_up()

    def _is_up(self) -> None:
        self._up = True
        log.info("link_up", extra={"broker": self._where, "session_kept": self._session_present})
        self._call(self._on_up, self._session_present)

    def _acknowledged(self, mid: int, code: int) -> None:
        acknowledged = self._waiting.pop(mid, None)
        if acknowledged is not None and not acknowledged.done():
            acknowledged.set_result(code)
        if self._drained.is_set() and not self._waiting:
            self._lost.set()

    def _received(self, topic: str, payload: bytes, mid: int, qos: int) -> None:
        client = self._client

        def ack() -> None:
            if client is not None and self._client is client:  # an older one's comes again
                client.ack(mid, qos)

        self._call(self._on_delivery, Delivery(topic, payload, ack))

    def _disconnected(
        self, _: paho.Client, __: object, ___: object, reason: ReasonCode, ____: object
    ) -> None:
        self._lose(str(reason))

    def _call(self, handler: Callable[[T], None], value: T) -> None:
        try:
            handler(value)
        except BaseException as error:  # noqa: BLE001  raised again by `run`, not lost in paho
            self._failure = error
            self._lost.set()

    def _readable(self) -> None:
        client = self._client
        if client is None:
            return
        try:
            client.read()
        except NO_MQTT as error:
            self._lose(f"the broker sent what is no MQTT: {error}")

    def _lose(self, why: str) -> None:
        self._why = self._why or why
        self._lost.set()

    def _close(self) -> None:
        client, self._client = self._client, None
        was_up, self._up = self._up, False
        if client is not None:
            client.disconnect()
        waiting, self._waiting = self._waiting, {}
        for acknowledged in waiting.values():
            if not acknowledged.done():
                acknowledged.set_exception(Disconnected(f"the link to {self._where} was lost"))
        if was_up:
            self._on_down()


def _context(settings: LinkSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.tls_ca)
    if settings.tls_certificate is not None:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key)
    return context


def _retrieve(acknowledged: "asyncio.Future[int]") -> None:
    """Mark a failure as seen: not every caller waits for its PUBACK."""
    if not acknowledged.cancelled():
        acknowledged.exception()
