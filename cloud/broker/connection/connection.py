"""One network connection's life, from CONNECT to good-bye: packets and time in, bytes out. Pure.

The shell feeds `receive`, writes what `collect` gives and closes when `is_closing` says so. A rule
broken by the peer raises `BrokenRule`; the shell passes it to `fail`, which words the good-bye.
"""

from collections.abc import Callable
from dataclasses import replace

from cloud.broker.access.gate import Admission
from cloud.broker.access.identity import Identity
from cloud.broker.access.rules import OPEN, Rules
from cloud.broker.codec import packets as p
from cloud.broker.codec.encode import encode
from cloud.broker.codec.packets import Version
from cloud.broker.codec.properties import Properties, PropertyId, integer
from cloud.broker.codec.reasons import CONNECT_RETURN_CODE, BrokenRule, ReasonCode, protocol_error
from cloud.broker.connection.exchange import Exchange
from cloud.broker.connection.handshake import Granted, judge, packet_bytes_max
from cloud.broker.connection.output import Output
from cloud.broker.operations.counts import CLIENT_LEFT, CONNECTION_LOST, Counts
from cloud.broker.router.router import Router
from cloud.broker.session.session import Session


class Connection:
    """From CONNECT to the end of the network connection. `wake` asks the shell to collect."""

    def __init__(
        self, router: Router, wake: Callable[[], None], counts: Counts | None = None
    ) -> None:
        """Wait for a CONNECT."""
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
        self.said_why = False
        """Whether the client was sent the reason why it is closed."""
        self._output = Output(wake)
        self._session: Session | None = None
        self._exchange: Exchange | None = None

    @property
    def has_more(self) -> bool:
        """Whether `collect` would give something at once."""
        session, output = self._session, self._output
        return output.is_ready or (session is not None and output.is_open and session.has_more())

    @property
    def is_behind(self) -> bool:
        """Whether to stop reading: the peer does not read, or has more open than it may."""
        limits, output = self._router.limits, self._output
        return (
            output.bytes_held > limits.control_bytes_max or len(output) > limits.receive_maximum * 2
        )

    def receive(self, packet: p.Packet, now: float) -> None:
        """Act on one packet; raises `BrokenRule` when the connection must close (4.13).

        A CONNECT that comes this way is let in by no other rule than those of the protocol.
        """
        exchange = self._exchange
        if exchange is None:
            if not isinstance(packet, p.Connect) or self.granted is not None:
                raise protocol_error("the first packet must be CONNECT")  # 3.1.0-1
            client_id = packet.client_id or self._router.new_client_id()
            anybody = Identity(client_id, None)
            self.admit(packet, Admission(client_id, anybody, OPEN, not packet.client_id), now)
        elif isinstance(packet, p.Disconnect):
            self._disconnect(packet, now)
        else:
            exchange.receive(packet, now)

    def admit(self, packet: p.Connect, admission: Admission, now: float) -> None:
        """Answer a CONNECT whose sender was let in; raises `BrokenRule` if it asks too much."""
        changes = self._router.changes
        was_there = admission.client_id in self._router.sessions
        try:
            granted = judge(packet, self._router.limits, admission)
            _check_fits(granted)
            session, present = self._router.open(
                admission.identity, self, now,
                clean=granted.clean, expiry_s=granted.expiry_s, window=granted.window,
                will=granted.will,
            )  # fmt: skip
        except BrokenRule as error:
            self.refuse(packet, error)
            raise
        self._session, self.granted, self.admission = session, granted, admission
        self._exchange = Exchange(
            self._router, session, granted, admission, self._output, self._counts
        )
        self._counts.connects += 1
        connack = encode(p.Connack(present, 0, granted.properties), granted.version)
        lasts = was_there or session.changes is not None
        self._output.open(connack, changes.promise() if lasts and changes is not None else None)

    def refuse(self, packet: p.Connect, error: BrokenRule) -> None:
        """Say why a CONNECT is refused, as far as its version allows (3.2.2.2)."""
        self._counts.connects_refused[error.reason.name] += 1
        v5 = packet.version is Version.V5
        code = error.reason if v5 else CONNECT_RETURN_CODE.get(error.reason)
        if code is not None:
            connack = p.Connack(session_present=False, reason=code)
            told = replace(connack, properties=((PropertyId.REASON_STRING, error.why),))
            for one in (
                told,
                connack,
            ):  # without the reason in words where it does not fit (3.2.2-19)
                data = encode(one, packet.version)
                if len(data) <= packet_bytes_max(packet):
                    self._say(data)
                    break

    def judge_by(self, rules: Rules) -> None:
        """Go by rules read anew."""
        if self.admission is not None and self._exchange is not None:
            self.admission = replace(self.admission, rules=rules)
            self._exchange.rules = rules

    def collect(self, now: float, bytes_max: int) -> list[bytes]:
        """Give the bytes to write: acknowledgements, then about `bytes_max` of messages."""
        out = self._output.take()
        self._counts.messages_sent += len(out)
        if self._exchange is not None and self._output.is_open:
            self._exchange.collect(now, bytes_max, out)
        return out

    def fail(self, error: BrokenRule, now: float) -> None:
        """Say why, as far as the version allows, and close (3.2.2.2, 4.13.2)."""
        if self.is_closing:
            return
        if self.granted is None and error.reason is ReasonCode.UNSUPPORTED_PROTOCOL_VERSION:
            # 3.1.1 section 3.1.2-2: the one form all can read
            self._say(b"\x20\x02\x00\x01")
        elif self._session is not None:
            self._goodbye(error.reason, error.why)
        elif self.granted is None and error.version is Version.V5:  # a CONNECT that said so (3.1.4)
            self._say(encode(p.Connack(session_present=False, reason=error.reason)))
        self._lost(now, error.reason.name, publish_will=True)

    def shut_down(self, now: float) -> None:
        """Say that the broker stops (0x8B) and close; wills are for connections that broke."""
        self._goodbye(ReasonCode.SERVER_SHUTTING_DOWN)
        self._lost(now, ReasonCode.SERVER_SHUTTING_DOWN.name, publish_will=False)

    def take_over(self, now: float) -> None:
        """Close: the same client connected again (3.1.4-3)."""
        self.kick(ReasonCode.SESSION_TAKEN_OVER, now)

    def kick(self, reason: ReasonCode, now: float, *, publish_will: bool = True) -> None:
        """Close because another connection, an operator or a rule read anew says so."""
        self._goodbye(reason)
        self._lost(now, reason.name, publish_will=publish_will)

    def lost(self, now: float) -> None:
        """Note that the network connection is gone; after a good-bye nothing is left to do."""
        self._lost(now, CONNECTION_LOST, publish_will=True)

    def _disconnect(self, packet: p.Disconnect, now: float) -> None:
        expiry_s = integer(packet.properties, PropertyId.SESSION_EXPIRY_INTERVAL, -1)
        if expiry_s >= 0 and self._session is not None and self.granted is not None:
            if expiry_s and not self.granted.expiry_s:  # 3.14.2.2.2
                raise protocol_error("a session expiry of 0 cannot be raised at DISCONNECT")
            self._session.expiry_s = min(expiry_s, self._router.limits.session_expiry_s_max)
        self._lost(now, CLIENT_LEFT, publish_will=packet.reason != ReasonCode.SUCCESS)

    def _lost(self, now: float, why: str, *, publish_will: bool) -> None:
        self.is_closing = True
        session, self._session, self._exchange = self._session, None, None
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
            self._say(data)

    def _say(self, last: bytes) -> None:
        self.said_why = True
        self._output.put_last(last)


def _check_fits(granted: Granted) -> None:
    connack = p.Connack(session_present=False, reason=0, properties=granted.properties)
    if len(encode(connack, granted.version)) > granted.packet_bytes_max:  # 3.1.2-24
        why = "a CONNACK over the client's Maximum Packet Size"
        raise BrokenRule(ReasonCode.PACKET_TOO_LARGE, why)
