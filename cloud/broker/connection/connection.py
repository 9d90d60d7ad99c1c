"""One network connection's side of the protocol: packets and time in, bytes out. Pure.

The shell feeds `receive`, writes what `collect` gives and closes when `is_closing` says so. A rule
broken by the peer raises `BrokenRule`; the shell passes it to `fail`, which words the good-bye.

What an acknowledgement promises is true when it is sent: one that stands for something durable
waits in `acks` until that is on disk, and those behind it wait with it.
"""

from collections.abc import Callable
from typing import Final

from cloud.broker.access.gate import Admission
from cloud.broker.access.identity import Identity
from cloud.broker.access.rates import TokenBucket
from cloud.broker.access.rules import OPEN
from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode, puback, publish_header
from cloud.broker.codec.packets import Version
from cloud.broker.codec.properties import Properties, PropertyId, integer
from cloud.broker.codec.reasons import CONNECT_RETURN_CODE, BrokenRule, ReasonCode, protocol_error
from cloud.broker.codec.topics import check_name, split_shared
from cloud.broker.connection.acks import Acks
from cloud.broker.connection.aliases import ReceivedAliases, SentAliases
from cloud.broker.connection.handshake import Granted, judge
from cloud.broker.operations.counts import CLIENT_LEFT, CONNECTION_LOST, Counts
from cloud.broker.router.router import Router
from cloud.broker.session.messages import Message, Promise, forwarded, split_expiry
from cloud.broker.session.outgoing import Send
from cloud.broker.session.session import Session

FAILURE: Final = ReasonCode.UNSPECIFIED_ERROR
"""Reason codes from here on are failures (2.4)."""


class Connection:
    """From CONNECT to the end of the network connection. `wake` asks the shell to collect."""

    def __init__(
        self, router: Router, wake: Callable[[], None], counts: Counts | None = None
    ) -> None:
        """Wait for a CONNECT."""
        limits = router.limits
        self._router = router
        self.wake = wake
        self._counts = counts or Counts()
        self.granted: Granted | None = None
        self.admission: Admission | None = None
        self.address = ""
        """Of the peer, for operators."""
        self.since = 0.0
        """When the network connection began."""
        self.is_closing = False
        self.control_bytes = 0
        self._session: Session | None = None
        self._control: list[bytes] = []
        self._acks = Acks(wake)
        self._received_aliases = ReceivedAliases(limits.topic_alias_maximum)
        self._sent_aliases: SentAliases | None = None
        self._subscribes = TokenBucket(limits.subscribes_per_s_max, limits.subscribes_per_s_max)

    @property
    def has_more(self) -> bool:
        """Whether `collect` would give something at once."""
        session = self._session
        return (
            bool(self._control)
            or self._acks.is_ready
            or (session is not None and session.has_more())
        )

    @property
    def is_behind(self) -> bool:
        """Whether to stop reading: more waits to be acknowledged than a client may have open."""
        limits = self._router.limits
        return (
            self.control_bytes > limits.control_bytes_max
            or len(self._acks) > limits.receive_maximum * 2
        )

    def receive(self, packet: p.Packet, now: float) -> None:
        """Act on one packet; raises `BrokenRule` when the connection must close (4.13).

        A CONNECT that comes this way is let in by no other rule than those of the protocol.
        """
        session = self._session
        if session is None or self.granted is None:
            if not isinstance(packet, p.Connect) or self.granted is not None:
                raise protocol_error("the first packet must be CONNECT")  # 3.1.0-1
            client_id = packet.client_id or self._router.new_client_id()
            anybody = Identity(client_id, None)
            self.admit(packet, Admission(client_id, anybody, OPEN, not packet.client_id), now)
            return
        match packet:
            case p.Publish():
                self._publish(packet, session, self.granted, now)
            case p.Puback(packet_id) | p.Pubcomp(packet_id):
                session.acknowledge(packet_id)
            case p.Pubrec(packet_id, reason):
                if session.received_by_client(packet_id, reason):
                    self._answer(p.Pubrel(packet_id), self._promise(session))
                elif reason < FAILURE:
                    self._answer(p.Pubrel(packet_id, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND), None)
            case p.Pubrel(packet_id):
                known = session.close_received(packet_id)
                reason = 0 if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
                self._answer(p.Pubcomp(packet_id, reason), self._promise(session))
            case p.Subscribe():
                self._subscribe(packet, session, self.granted, now)
            case p.Unsubscribe(packet_id, topic_filters):
                router, reasons = self._router, self._in_use(packet_id, len(topic_filters))
                reasons = reasons or tuple(
                    router.unsubscribe(session, one, now) for one in topic_filters
                )
                self._answer(p.Unsuback(packet_id, reasons), self._promise(session))
            case p.Pingreq():
                self._send(p.Pingresp())
            case p.Disconnect():
                self._disconnect(packet, session, self.granted, now)
            case _:
                raise protocol_error(f"{type(packet).__name__} is not for a client to send now")

    def admit(self, packet: p.Connect, admission: Admission, now: float) -> None:
        """Answer a CONNECT whose sender was let in; raises `BrokenRule` if it asks too much."""
        try:
            granted = judge(packet, self._router.limits, admission)
            self._session, present = self._router.open(
                admission.identity, self, now,
                clean=granted.clean, expiry_s=granted.expiry_s, window=granted.window,
                will=granted.will,
            )  # fmt: skip
        except BrokenRule as error:
            self.refuse(packet, error)
            raise
        self.granted, self.admission = granted, admission
        if granted.topic_aliases_max:
            self._sent_aliases = SentAliases(granted.topic_aliases_max)
        self._counts.connects += 1
        self._put(encode(p.Connack(present, 0, granted.properties), granted.version))

    def refuse(self, packet: p.Connect, error: BrokenRule) -> None:
        """Say why a CONNECT is refused, as far as its version allows (3.2.2.2)."""
        self._counts.connects_refused[error.reason.name] += 1
        v5 = packet.version is Version.V5
        code = error.reason if v5 else CONNECT_RETURN_CODE.get(error.reason)
        if code is not None:
            told: Properties = ((PropertyId.REASON_STRING, error.why),) if v5 else ()
            connack = p.Connack(session_present=False, reason=code, properties=told)
            self._put(encode(connack, packet.version))

    def collect(self, now: float, bytes_max: int) -> list[bytes]:
        """Give the bytes to write: acknowledgements, then about `bytes_max` of messages."""
        out, self._control, self.control_bytes = self._control, [], 0
        if self._acks:
            out += self._acks.ready()
        session, granted, counts = self._session, self.granted, self._counts
        counts.messages_sent += len(out)
        if session is None or granted is None:
            return out
        version = granted.version
        for send in session.take(now, bytes_max):
            delivery, packet_id, dup = send
            if delivery is None:
                counts.messages_sent += 1
                out.append(encode(p.Pubrel(packet_id), version))
                continue
            message = delivery.message
            first = 0x30 | dup << 3 | delivery.qos << 1 | delivery.retain
            found: Properties = ()
            if message.properties or delivery.identifiers or message.expires_at is not None:
                found = forwarded(delivery, now) if version is Version.V5 else ()
            payload, name = message.payload, message.topic
            if self._sent_aliases is not None:
                name, found = self._sent_aliases.shorten(name, found)
            topic = name.encode()
            header = publish_header(topic, len(payload), first, packet_id, found, version)
            if len(header) + len(payload) > granted.packet_bytes_max:
                session.too_large(Send(delivery, packet_id, dup))
                continue
            if self._sent_aliases is not None:
                self._sent_aliases.keep()
            counts.messages_sent += 1
            counts.publishes_sent += 1
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
            self._goodbye(error.reason, error.why)
        elif self.granted is None and error.version is Version.V5:  # a CONNECT that said so (3.1.4)
            self._put(encode(p.Connack(session_present=False, reason=error.reason)))
        self._lost(now, error.reason.name, publish_will=True)

    def shut_down(self, now: float) -> None:
        """Say that the broker stops (0x8B) and close; wills are for connections that broke."""
        self._goodbye(ReasonCode.SERVER_SHUTTING_DOWN)
        self._lost(now, ReasonCode.SERVER_SHUTTING_DOWN.name, publish_will=False)

    def take_over(self, now: float) -> None:
        """Close: the same client connected again (3.1.4-3)."""
        self._goodbye(ReasonCode.SESSION_TAKEN_OVER)
        self._lost(now, ReasonCode.SESSION_TAKEN_OVER.name, publish_will=True)

    def kick(self, reason: ReasonCode, now: float) -> None:
        """Close because an operator, or a rule read anew, says so."""
        self._goodbye(reason)
        self._lost(now, reason.name, publish_will=True)

    def lost(self, now: float) -> None:
        """Note that the network connection is gone; after a good-bye nothing is left to do."""
        self._lost(now, CONNECTION_LOST, publish_will=True)

    def _publish(self, packet: p.Publish, session: Session, granted: Granted, now: float) -> None:
        self._counts.publishes_received += 1
        topic, found, expires_at = packet.topic, packet.properties, None
        if found:
            topic = self._resolve(packet)
            found, expires_at = split_expiry(found, now)
        qos, packet_id = packet.qos, packet.packet_id
        if qos:
            if qos == 2 and packet_id in session.received:
                # a resend: it was routed the first time (4.3.3-10)
                self._answer(p.Pubrec(packet_id), self._promise(session), is_publish=True)
                return
            if packet_id in session.received and granted.version is Version.V5:
                in_use = ReasonCode.PACKET_IDENTIFIER_IN_USE
                self._counts.publishes_refused[in_use.name] += 1
                self._answer(p.Puback(packet_id, in_use), None, is_publish=True)
                return
            open_count = len(session.received) + self._acks.publishes
            if open_count >= self._router.limits.receive_maximum and granted.version == 5:
                why = "more QoS>0 messages open than CONNACK allowed"
                raise BrokenRule(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, why)
        message = Message(
            topic, packet.payload, qos, packet.retain, found, granted.client_id, expires_at
        )
        reason = self._judge(topic) or self._router.publish(message, now)
        if reason >= FAILURE:
            self._refuse_publish(ReasonCode(reason), qos, granted)
        promise: Promise | None = message.kept
        if message.retain and self._router.changes is not None:
            promise = self._router.changes.promise()
        if qos == 1:
            if self._acks.admits(promise):
                self._put(puback(packet_id, reason, granted.version))
            else:
                data = puback(packet_id, reason, granted.version)
                self._acks.put(data, promise, is_publish=True)
        elif qos:
            if reason < FAILURE:
                session.open_received(packet_id)
                if session.changes is not None:
                    promise = session.changes.promise()
            self._answer(p.Pubrec(packet_id, reason), promise, is_publish=True)

    def _judge(self, topic: str) -> int:
        """Give the reason why this client may not publish there, or 0."""
        assert self.admission is not None
        if not self.admission.rules.may_publish(topic):
            return ReasonCode.NOT_AUTHORIZED
        if topic.count("/") >= self._router.limits.topic_levels_max:
            return ReasonCode.TOPIC_NAME_INVALID
        return 0

    def _refuse_publish(self, reason: ReasonCode, qos: int, granted: Granted) -> None:
        """Count; over 3.1.1, which can only say success, close (3.1.1 section 3.3.5)."""
        self._counts.publishes_refused[reason.name] += 1
        if granted.version is Version.V311 and (qos or reason is ReasonCode.NOT_AUTHORIZED):
            raise BrokenRule(reason, "a publish was refused, which 3.1.1 has no other way to say")

    def _resolve(self, packet: p.Publish) -> str:
        """Check what a client may not send, and give the topic, alias or not."""
        for identifier, value in packet.properties:
            if identifier is PropertyId.SUBSCRIPTION_IDENTIFIER:  # 3.3.4-6
                raise protocol_error("a client sends no subscription identifier in PUBLISH")
            if identifier is PropertyId.RESPONSE_TOPIC and isinstance(value, str):
                check_name(value)  # 3.3.2-14
        return self._received_aliases.topic(packet)

    def _subscribe(
        self, packet: p.Subscribe, session: Session, granted: Granted, now: float
    ) -> None:
        identifier = integer(packet.properties, PropertyId.SUBSCRIPTION_IDENTIFIER, 0)
        reasons = list(self._in_use(packet.packet_id, len(packet.subscriptions)))
        for one in packet.subscriptions if not reasons else ():
            if one.no_local and one.topic_filter.startswith("$share/"):  # 3.8.3-4
                raise protocol_error("no local on a shared subscription")
            reason: int
            if not self._subscribes.take(now):
                reason = ReasonCode.QUOTA_EXCEEDED
            elif (denied := self._reading(one.topic_filter)) is None:
                reason = ReasonCode.NOT_AUTHORIZED
            else:
                reason = self._router.subscribe(session, one, identifier, now, denied)
            if reason >= FAILURE:
                self._counts.subscribes_refused[ReasonCode(reason).name] += 1
                if granted.version is Version.V311:
                    reason = FAILURE  # its only failure (3.1.1 section 3.9.3)
            reasons.append(reason)
        self._answer(p.Suback(packet.packet_id, tuple(reasons)), self._promise(session))

    def _in_use(self, packet_id: int, count: int) -> tuple[int, ...]:
        """Give 0x91 for each filter where a QoS 2 message has the packet id (2.2.1-3), or ()."""
        session, granted = self._session, self.granted
        if session is None or granted is None or granted.version is Version.V311:
            return ()
        in_use = packet_id in session.received
        return (ReasonCode.PACKET_IDENTIFIER_IN_USE,) * count if in_use else ()

    def _reading(self, topic_filter: str) -> tuple[str, ...] | None:
        """Give what is denied within a filter; None: all of it, or more than is allowed."""
        assert self.admission is not None
        try:
            share = split_shared(topic_filter)
        except BrokenRule:
            return ()  # the router says what is wrong with it
        return self.admission.rules.reading(
            share.topic_filter if share is not None else topic_filter
        )

    def _disconnect(
        self, packet: p.Disconnect, session: Session, granted: Granted, now: float
    ) -> None:
        expiry_s = integer(packet.properties, PropertyId.SESSION_EXPIRY_INTERVAL, -1)
        if expiry_s >= 0:
            if expiry_s and not granted.expiry_s:  # 3.14.2.2.2
                raise protocol_error("a session expiry of 0 cannot be raised at DISCONNECT")
            session.expiry_s = min(expiry_s, self._router.limits.session_expiry_s_max)
        self._lost(now, CLIENT_LEFT, publish_will=packet.reason != ReasonCode.SUCCESS)

    def _lost(self, now: float, why: str, *, publish_will: bool) -> None:
        self.is_closing = True
        session, self._session = self._session, None
        if session is not None:
            self._counts.closed[why] += 1
            self._router.close(session, now, publish_will=publish_will)
        self.wake()

    def _goodbye(self, reason: ReasonCode, why: str = "") -> None:
        if self.granted is not None and self.granted.version is Version.V5:
            told: Properties = ((PropertyId.REASON_STRING, why),) if why else ()
            data = encode(p.Disconnect(reason, told))
            if len(data) > self.granted.packet_bytes_max:
                data = encode(p.Disconnect(reason))
            self._put(data)

    def _promise(self, session: Session) -> Promise | None:
        """What an answer about this session's state waits for."""
        return session.changes.promise() if session.changes is not None else None

    def _answer(
        self, packet: p.Packet, promise: Promise | None, *, is_publish: bool = False
    ) -> None:
        assert self.granted is not None
        data = encode(packet, self.granted.version)
        if self._acks.admits(promise):
            self._put(data)
        else:
            self._acks.put(data, promise, is_publish=is_publish)

    def _send(self, packet: p.Packet) -> None:
        version = self.granted.version if self.granted is not None else Version.V5
        self._put(encode(packet, version))

    def _put(self, data: bytes) -> None:
        self._control.append(data)
        self.control_bytes += len(data)
