"""One network connection's side of the protocol: packets and time in, bytes out. Pure.

The shell feeds `receive`, writes what `collect` gives and closes when `is_closing` says so. A rule
broken by the peer raises `BrokenRule`; the shell passes it to `fail`, which words the good-bye.
"""

from collections.abc import Callable

from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode, puback, publish_header
from cloud.broker.codec.packets import Version
from cloud.broker.codec.properties import Properties, PropertyId, integer
from cloud.broker.codec.reasons import CONNECT_RETURN_CODE, BrokenRule, ReasonCode, protocol_error
from cloud.broker.codec.topics import check_name
from cloud.broker.connection.handshake import Granted, judge, split_expiry, will_of
from cloud.broker.router.router import Router
from cloud.broker.session.messages import Message, forwarded
from cloud.broker.session.session import Send, Session


class Connection:
    """From CONNECT to the end of the network connection. `wake` asks the shell to collect."""

    def __init__(self, router: Router, wake: Callable[[], None]) -> None:
        """Wait for a CONNECT."""
        self._router = router
        self.wake = wake
        self.granted: Granted | None = None
        self.is_closing = False
        self.control_bytes = 0
        self._session: Session | None = None
        self._control: list[bytes] = []
        self._aliases: dict[int, str] = {}

    @property
    def has_more(self) -> bool:
        """Whether `collect` would give something at once."""
        session = self._session
        return bool(self._control) or (session is not None and session.has_more())

    def receive(self, packet: p.Packet, now: float) -> None:
        """Act on one packet; raises `BrokenRule` when the connection must close (4.13)."""
        session = self._session
        if session is None or self.granted is None:
            if not isinstance(packet, p.Connect) or self.granted is not None:
                raise protocol_error("the first packet must be CONNECT")  # 3.1.0-1
            self._connect(packet, now)
            return
        match packet:
            case p.Publish():
                self._publish(packet, session, self.granted, now)
            case p.Puback(packet_id) | p.Pubcomp(packet_id):
                session.acknowledge(packet_id)
            case p.Pubrec(packet_id, reason):
                if session.received_by_client(packet_id, reason):
                    self._send(p.Pubrel(packet_id))
                elif reason < ReasonCode.UNSPECIFIED_ERROR:
                    self._send(p.Pubrel(packet_id, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND))
            case p.Pubrel(packet_id):
                known = packet_id in session.received
                session.received.discard(packet_id)
                reason = 0 if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
                self._send(p.Pubcomp(packet_id, reason))
            case p.Subscribe():
                self._subscribe(packet, session, self.granted, now)
            case p.Unsubscribe(packet_id, topic_filters):
                router = self._router
                reasons = tuple(router.unsubscribe(session, one, now) for one in topic_filters)
                self._send(p.Unsuback(packet_id, reasons))
            case p.Pingreq():
                self._send(p.Pingresp())
            case p.Disconnect():
                self._disconnect(packet, session, self.granted, now)
            case _:
                raise protocol_error(f"{type(packet).__name__} is not for a client to send now")

    def collect(self, now: float, bytes_max: int) -> list[bytes]:
        """Give the bytes to write: acknowledgements, then about `bytes_max` of messages."""
        out, self._control, self.control_bytes = self._control, [], 0
        session, granted = self._session, self.granted
        if session is None or granted is None:
            return out
        version = granted.version
        for send in session.take(now, bytes_max):
            delivery, packet_id, dup = send
            if delivery is None:
                out.append(encode(p.Pubrel(packet_id), version))
                continue
            message = delivery.message
            first = 0x30 | dup << 3 | delivery.qos << 1 | delivery.retain
            found: Properties = ()
            if message.properties or delivery.identifiers or message.expires_at is not None:
                found = forwarded(delivery, now) if version is Version.V5 else ()
            payload = message.payload
            topic = message.topic.encode()
            header = publish_header(topic, len(payload), first, packet_id, found, version)
            if len(header) + len(payload) > granted.packet_bytes_max:
                session.too_large(Send(delivery, packet_id, dup))
                continue
            out.append(header)
            if payload:
                out.append(payload)
        return out

    def fail(self, error: BrokenRule, now: float) -> None:
        """Say why, as far as the version allows, and close (3.2.2.2, 4.13.2)."""
        if self.is_closing:
            return
        if self.granted is None and error.reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
            self._put(b"\x20\x02\x00\x01")  # 3.1.1 section 3.1.2-2: the one form all can read
        elif self._session is not None:
            self._goodbye(error.reason)
        self._lost(now, publish_will=True)

    def shut_down(self, now: float) -> None:
        """Say that the broker stops (0x8B) and close; wills are for connections that broke."""
        self._goodbye(ReasonCode.SERVER_SHUTTING_DOWN)
        self._lost(now, publish_will=False)

    def take_over(self, now: float) -> None:
        """Close: the same client connected again (3.1.4-3)."""
        self._goodbye(ReasonCode.SESSION_TAKEN_OVER)
        self._lost(now, publish_will=True)

    def lost(self, now: float) -> None:
        """Note that the network connection is gone; after a good-bye nothing is left to do."""
        self._lost(now, publish_will=True)

    def _connect(self, packet: p.Connect, now: float) -> None:
        limits = self._router.limits
        try:
            granted = judge(packet, limits, self._router.new_client_id)
            self._session, present = self._router.open(
                granted.client_id, self, now,
                clean=granted.clean, expiry_s=granted.expiry_s, window=granted.window,
            )  # fmt: skip
        except BrokenRule as error:
            v5 = packet.version is Version.V5
            code = error.reason if v5 else CONNECT_RETURN_CODE.get(error.reason)
            if code is not None:
                self._put(encode(p.Connack(session_present=False, reason=code), packet.version))
            raise
        self.granted = granted
        self._put(encode(p.Connack(present, 0, granted.properties), granted.version))

    def _publish(self, packet: p.Publish, session: Session, granted: Granted, now: float) -> None:
        topic, found, expires_at = packet.topic, packet.properties, None
        if found:
            topic = self._resolve(packet)
            found, expires_at = split_expiry(found, now)
        qos, packet_id = packet.qos, packet.packet_id
        if qos == 2:
            if packet_id in session.received:  # a resend: it was routed the first time (4.3.3-10)
                self._send(p.Pubrec(packet_id))
                return
            if len(session.received) >= self._router.limits.receive_maximum:
                why = "more QoS 2 messages open than CONNACK allowed"
                raise BrokenRule(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, why)
        message = Message(
            topic, packet.payload, qos, packet.retain, found, granted.client_id, expires_at
        )
        reason = self._router.publish(message, now)
        if qos == 1:
            self._put(puback(packet_id, reason, granted.version))
        elif qos:
            if reason < ReasonCode.UNSPECIFIED_ERROR or granted.version is Version.V311:
                session.received.add(packet_id)
            self._send(p.Pubrec(packet_id, reason))

    def _resolve(self, packet: p.Publish) -> str:
        """Set or look up a topic alias (3.3.2.3.4); refuse what a client may not send."""
        found = packet.properties
        alias = integer(found, PropertyId.TOPIC_ALIAS, 0)
        for identifier, value in found:
            if identifier is PropertyId.SUBSCRIPTION_IDENTIFIER:  # 3.3.4-6
                raise protocol_error("a client sends no subscription identifier in PUBLISH")
            if identifier is PropertyId.RESPONSE_TOPIC and isinstance(value, str):
                check_name(value)  # 3.3.2-14
        if not alias:
            return packet.topic
        if alias > self._router.limits.topic_alias_maximum:
            raise BrokenRule(ReasonCode.TOPIC_ALIAS_INVALID, f"topic alias {alias} is too high")
        if packet.topic:
            self._aliases[alias] = packet.topic
        elif alias not in self._aliases:
            raise protocol_error(f"topic alias {alias} was never set")
        return self._aliases[alias]

    def _subscribe(
        self, packet: p.Subscribe, session: Session, granted: Granted, now: float
    ) -> None:
        identifier = integer(packet.properties, PropertyId.SUBSCRIPTION_IDENTIFIER, 0)
        reasons: list[int] = []
        for one in packet.subscriptions:
            if one.no_local and one.topic_filter.startswith("$share/"):  # 3.8.3-4
                raise protocol_error("no local on a shared subscription")
            reason = self._router.subscribe(session, one, identifier, now)
            if reason > 2 and granted.version is Version.V311:
                reason = ReasonCode.UNSPECIFIED_ERROR  # its only failure (3.1.1 section 3.9.3)
            reasons.append(reason)
        self._send(p.Suback(packet.packet_id, tuple(reasons)))

    def _disconnect(
        self, packet: p.Disconnect, session: Session, granted: Granted, now: float
    ) -> None:
        expiry_s = integer(packet.properties, PropertyId.SESSION_EXPIRY_INTERVAL, -1)
        if expiry_s >= 0:
            if expiry_s and not granted.expiry_s:  # 3.14.2.2.2
                raise protocol_error("a session expiry of 0 cannot be raised at DISCONNECT")
            session.expiry_s = min(expiry_s, self._router.limits.session_expiry_s_max)
        self._lost(now, publish_will=packet.reason != ReasonCode.SUCCESS)

    def _lost(self, now: float, *, publish_will: bool) -> None:
        self.is_closing = True
        session, self._session = self._session, None
        if session is not None and self.granted is not None:
            will = will_of(self.granted, now) if publish_will else None
            self._router.close(session, will, now)
        self.wake()

    def _goodbye(self, reason: ReasonCode) -> None:
        if self.granted is not None and self.granted.version is Version.V5:
            self._send(p.Disconnect(reason))

    def _send(self, packet: p.Packet) -> None:
        version = self.granted.version if self.granted is not None else Version.V5
        self._put(encode(packet, version))

    def _put(self, data: bytes) -> None:
        self._control.append(data)
        self.control_bytes += len(data)
