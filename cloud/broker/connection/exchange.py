"""What an admitted client and the broker say to each other: PUBLISH, SUBSCRIBE and answers. Pure."""

from typing import Final

from cloud.broker.access.gate import Admission
from cloud.broker.access.rules import Rules
from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode, puback, publish_header
from cloud.broker.codec.packets import Version
from cloud.broker.codec.properties import Properties, PropertyId, integer
from cloud.broker.codec.reasons import BrokenRule, ReasonCode, protocol_error
from cloud.broker.codec.topics import check_name, split_shared
from cloud.broker.connection.aliases import ReceivedAliases, SentAliases
from cloud.broker.connection.handshake import Granted
from cloud.broker.connection.output import Output
from cloud.broker.operations.counts import Counts
from cloud.broker.router.router import Router
from cloud.broker.session.messages import Message, Promise, forwarded, split_expiry
from cloud.broker.session.session import Session
from shared.token_bucket import TokenBucket

FAILURE: Final = ReasonCode.UNSPECIFIED_ERROR
"""Reason codes from here on are failures (2.4)."""


class Exchange:
    """One connection of a session, on the terms granted."""

    def __init__(
        self,
        router: Router,
        session: Session,
        granted: Granted,
        admission: Admission,
        output: Output,
        counts: Counts,
    ) -> None:
        """Begin after the CONNACK."""
        limits = router.limits
        self._router, self._session, self._granted = router, session, granted
        self.rules: Rules = admission.rules
        """What the client may publish and read; replaced when the rules are read anew."""
        self._output, self._counts = output, counts
        self._version = granted.version
        self._is_v5 = granted.version is Version.V5
        self._received_aliases = ReceivedAliases(limits.topic_alias_maximum)
        maximum = granted.topic_aliases_max
        self._sent_aliases = SentAliases(maximum) if maximum else None
        self._subscribes = TokenBucket(
            limits.subscribes_per_s_max, max(1.0, limits.subscribes_per_s_max)
        )

    def receive(self, packet: p.Packet, now: float) -> None:
        """Act on one packet; raises `BrokenRule` when the connection must close (4.13)."""
        session = self._session
        if isinstance(packet, p.Publish):  # the two that come by the thousand first
            self._publish(packet, now)
            return
        if isinstance(packet, p.Puback):
            session.acknowledge(packet.packet_id)
            return
        match packet:
            case p.Pubcomp(packet_id):
                session.acknowledge(packet_id)
            case p.Pubrec(packet_id, reason):
                if session.received_by_client(packet_id, reason):
                    self._answer(p.Pubrel(packet_id))
                elif reason < FAILURE:
                    self._answer(p.Pubrel(packet_id, ReasonCode.PACKET_IDENTIFIER_NOT_FOUND))
            case p.Pubrel(packet_id):
                known = session.close_received(packet_id)
                reason = 0 if known else ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
                self._answer(p.Pubcomp(packet_id, reason))
            case p.Subscribe():
                self._subscribe(packet, now)
            case p.Unsubscribe(packet_id, topic_filters):
                reasons = self._in_use(packet_id, len(topic_filters)) or [
                    self._router.subscribing.unsubscribe(session, one, now) for one in topic_filters
                ]
                self._answer(p.Unsuback(packet_id, tuple(reasons)))
            case p.Pingreq():
                self._output.put(encode(p.Pingresp(), self._version))
            case _:
                raise protocol_error(f"{type(packet).__name__} is not for a client to send now")

    def collect(self, now: float, bytes_max: int, out: list[bytes]) -> None:
        """Append about `bytes_max` of messages to what is to be written."""
        session, counts, granted = self._session, self._counts, self._granted
        for send in session.take(now, bytes_max):
            delivery, packet_id, dup = send
            if delivery is None:
                counts.messages_sent += 1
                out.append(encode(p.Pubrel(packet_id), self._version))
                continue
            message = delivery.message
            first = 0x30 | dup << 3 | delivery.qos << 1 | delivery.retain
            found: Properties = ()
            if message.properties or delivery.identifiers or message.expires_at is not None:
                found = forwarded(delivery, now) if self._is_v5 else ()
            payload, name = message.payload, message.topic
            if self._sent_aliases is not None:
                name, found = self._sent_aliases.shorten(name, found)
            header = publish_header(
                name.encode(), len(payload), first, packet_id, found, self._version
            )
            if len(header) + len(payload) > granted.packet_bytes_max:
                session.too_large(packet_id)
                continue
            if self._sent_aliases is not None:
                self._sent_aliases.keep()
            counts.messages_sent += 1
            counts.publishes_sent += 1
            out.append(header)
            if payload:
                out.append(payload)

    def _publish(self, packet: p.Publish, now: float) -> None:
        session, router, output = self._session, self._router, self._output
        self._counts.publishes_received += 1
        topic, found, expires_at = packet.topic, packet.properties, None
        if found:
            topic = self._resolve(packet)
            found, expires_at = split_expiry(found, now)
        qos, packet_id = packet.qos, packet.packet_id
        if qos and not self._is_new(packet):
            return
        message = Message(
            topic, packet.payload, qos, packet.retain, found, session.client_id, expires_at
        )
        reason = self._judge(topic) or router.publish(message, now)
        if reason >= FAILURE:
            self._refuse_publish(ReasonCode(reason), qos)
        promise: Promise | None = message.kept
        if message.retain and router.changes is not None:
            promise = router.changes.promise()
        if qos == 1:
            output.answer(puback(packet_id, reason, self._version), promise, is_publish=True)
        elif qos:
            if reason < FAILURE:
                session.open_received(packet_id)
                if session.changes is not None:
                    promise = session.changes.promise()
            data = encode(p.Pubrec(packet_id, reason), self._version)
            output.answer(data, promise, is_publish=True)

    def _is_new(self, packet: p.Publish) -> bool:
        """Answer a QoS>0 message whose packet id is taken; raises 0x93 for one too many."""
        packet_id, received = packet.packet_id, self._session.received
        if packet_id in received:
            if packet.qos == 2:  # a resend: it was routed the first time (4.3.3-10)
                self._answer(p.Pubrec(packet_id), is_publish=True)
                return False
            if self._is_v5:
                in_use = ReasonCode.PACKET_IDENTIFIER_IN_USE
                self._counts.publishes_refused[in_use.name] += 1
                self._answer(p.Puback(packet_id, in_use), is_publish=True)
                return False
        open_count = len(received) + self._output.publishes_waiting
        if open_count >= self._router.limits.receive_maximum and self._is_v5:
            why = "more QoS>0 messages open than CONNACK allowed"
            raise BrokenRule(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, why)
        return True

    def _judge(self, topic: str) -> int:
        """Give the reason why this client may not publish there, or 0."""
        if not self.rules.may_publish(topic):
            return ReasonCode.NOT_AUTHORIZED
        if topic.count("/") >= self._router.limits.topic_levels_max:
            return ReasonCode.TOPIC_NAME_INVALID
        return 0

    def _refuse_publish(self, reason: ReasonCode, qos: int) -> None:
        """Count; over 3.1.1, which can only say success, close (3.1.1 section 3.3.5)."""
        self._counts.publishes_refused[reason.name] += 1
        if not self._is_v5 and (qos or reason is ReasonCode.NOT_AUTHORIZED):
            raise BrokenRule(reason, "a publish was refused, which 3.1.1 has no other way to say")

    def _resolve(self, packet: p.Publish) -> str:
        """Check what a client may not send, and give the topic, alias or not."""
        for identifier, value in packet.properties:
            if identifier is PropertyId.SUBSCRIPTION_IDENTIFIER:  # 3.3.4-6
                raise protocol_error("a client sends no subscription identifier in PUBLISH")
            if identifier is PropertyId.RESPONSE_TOPIC and isinstance(value, str):
                check_name(value)  # 3.3.2-14
        return self._received_aliases.topic(packet)

    def _subscribe(self, packet: p.Subscribe, now: float) -> None:
        identifier = integer(packet.properties, PropertyId.SUBSCRIPTION_IDENTIFIER, 0)
        reasons = self._in_use(packet.packet_id, len(packet.subscriptions))
        for one in packet.subscriptions if not reasons else ():
            if one.no_local and one.topic_filter.startswith("$share/"):  # 3.8.3-4
                raise protocol_error("no local on a shared subscription")
            reason = self._subscribe_one(one, identifier, now)
            if reason >= FAILURE:
                self._counts.subscribes_refused[ReasonCode(reason).name] += 1
                # 3.1.1 has one failure (3.1.1 section 3.9.3)
                reason = reason if self._is_v5 else FAILURE
            reasons.append(reason)
        self._answer(p.Suback(packet.packet_id, tuple(reasons)))

    def _subscribe_one(self, wanted: p.Subscription, identifier: int, now: float) -> int:
        if not self._subscribes.take(now):
            return ReasonCode.QUOTA_EXCEEDED
        try:
            share = split_shared(wanted.topic_filter)
        except BrokenRule as error:
            return error.reason
        denied = self.rules.reading(share.topic_filter if share else wanted.topic_filter)
        if denied is None:
            return ReasonCode.NOT_AUTHORIZED
        return self._router.subscribing.subscribe(self._session, wanted, identifier, now, denied)

    def _in_use(self, packet_id: int, count: int) -> list[int]:
        """Give 0x91 for each filter where a QoS 2 message has the packet id (2.2.1-3), or none."""
        in_use = self._is_v5 and packet_id in self._session.received
        return [ReasonCode.PACKET_IDENTIFIER_IN_USE] * count if in_use else []

    def _answer(self, packet: p.Packet, *, is_publish: bool = False) -> None:
        """Answer when what this session has on disk is as the answer says."""
        changes = self._session.changes
        promise = changes.promise() if changes is not None else None
        data = encode(packet, self._version)
        if len(data) > self._granted.packet_bytes_max:  # 3.1.2-24
            why = f"a {type(packet).__name__} over the client's Maximum Packet Size"
            raise BrokenRule(ReasonCode.PACKET_TOO_LARGE, why)
        self._output.answer(data, promise, is_publish=is_publish)
