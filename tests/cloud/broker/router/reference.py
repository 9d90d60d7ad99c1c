"""What a correct broker owes whom: the reference that `test_model` holds the real one to.

It knows sessions, subscriptions and messages, and nothing of queues. Each message is a number, its
payload. `sends` is told of each PUBLISH that leaves the broker and says what is wrong with it.
"""

from dataclasses import dataclass, field

from cloud.broker.codec import packets as p
from cloud.broker.codec.topics import matches

GROUPS = {"g": "a/+", "h": "b"}
"""Share groups and their filters: no topic is in two of them, so a message tells its group."""


@dataclass(eq=False)
class Owed:
    """A message on its way to one session, or to whoever of a share group gets it."""

    number: int
    topic: str
    qos: int
    retain: bool
    publisher: str
    expires_at: float | None
    group: str = ""
    is_sent: bool = False
    is_seen: bool = False
    """By the client, so with QoS 2 it may not be news again."""
    holder: str = ""
    """Of a share group: who got it with QoS 2, which ties it to that session (4.8.2)."""
    may_be_lost: bool = False

    def is_late(self, now: float) -> bool:
        """Whether it has expired without having been sent (3.3.2.3.3)."""
        return self.expires_at is not None and self.expires_at <= now and not self.is_sent


@dataclass
class Life:
    """A session."""

    expiry_s: float
    is_connected: bool = True
    ends_at: float | None = None
    subscriptions: dict[str, int] = field(default_factory=dict)
    owed: list[Owed] = field(default_factory=list)
    inflight: dict[int, Owed | None] = field(default_factory=dict)
    """By packet id until PUBACK or PUBCOMP; None after a crash, where only PUBREL is due."""
    will: Owed | None = None
    will_delay_s: float = 0
    will_at: float | None = None
    left: set[str] = field(default_factory=set)
    """Groups that it is no member of any more, though it may still hold their messages."""


class Reference:
    """All sessions."""

    def __init__(self) -> None:
        self.lives: dict[str, Life] = {}
        self.shared: dict[int, Owed] = {}
        self.retained: dict[str, Owed] = {}
        self.said: dict[str, list[Owed]] = {}
        """Retained messages of each topic since the last that was acknowledged, that one first."""
        self.acknowledged: set[int] = set()

    def members(self, group: str) -> list[str]:
        """Give the client ids of a group."""
        topic_filter = f"$share/{group}/{GROUPS[group]}"
        return [one for one, life in self.lives.items() if topic_filter in life.subscriptions]

    def connect(
        self, client_id: str, expiry_s: float, now: float, *, clean: bool,
        will: tuple[Owed, float] | None = None,
    ) -> bool:  # fmt: skip
        """Start or resume; whether the session was present."""
        life = self.lives.get(client_id)
        if life is not None and life.is_connected:
            self.disconnect(client_id, now)
        if clean and client_id in self.lives:
            self.end(client_id)
        present = client_id in self.lives
        life = self.lives.setdefault(client_id, Life(expiry_s))
        life.expiry_s, life.is_connected, life.ends_at = expiry_s, True, None
        life.will, life.will_delay_s = will or (None, 0)
        life.will_at = None
        return present

    def disconnect(self, client_id: str, now: float, *, in_order: bool = False) -> None:
        """Lose a connection; `in_order`, which takes the will along."""
        life = self.lives[client_id]
        if in_order:
            life.will = None
        life.is_connected, life.ends_at = False, now + life.expiry_s
        life.owed = [one for one in life.owed if one.qos]
        for one in life.inflight.values():
            if one is not None and one.group and not one.holder:
                one.is_sent = False  # another may get it, or it again under its packet id (4.4.0-1)
        if life.expiry_s <= 0:
            self.end(client_id)
        elif life.will is not None:
            life.will_at = now + min(life.will_delay_s, life.expiry_s)
            self._say_will(life, now)

    def expire(self, now: float) -> None:
        """Say the wills and end the sessions whose time has come: just now, not long ago."""
        for client_id, life in sorted(self.lives.items()):
            self._say_will(life, now)
            if life.ends_at is not None and life.ends_at <= now:
                self.end(client_id)

    def _say_will(self, life: Life, now: float) -> None:
        if life.will is not None and life.will_at is not None and life.will_at <= now:
            will, life.will, life.will_at = life.will, None, None
            self.publish(will)

    def end(self, client_id: str) -> None:
        """End a session."""
        if (will := self.lives[client_id].will) is not None:
            self.publish(will)
        del self.lives[client_id]
        self.shared = {
            number: one for number, one in self.shared.items() if one.holder != client_id
        }
        for one in self.shared.values():
            if not self.members(one.group):
                one.may_be_lost = True

    def subscribe(self, client_id: str, topic_filter: str, qos: int, now: float) -> None:
        """Subscribe; retained messages follow."""
        life = self.lives[client_id]
        life.subscriptions[topic_filter] = qos
        if topic_filter.startswith("$share/"):
            return
        for one in self.retained.values():
            if matches(topic_filter, one.topic) and not one.is_late(now):
                life.owed.append(
                    Owed(one.number, one.topic, min(qos, one.qos), True, one.publisher,
                         one.expires_at)
                )  # fmt: skip

    def unsubscribe(self, client_id: str, topic_filter: str) -> bool:
        """Unsubscribe; whether it was subscribed."""
        life = self.lives[client_id]
        if topic_filter.startswith("$share/"):
            life.left.add(topic_filter.split("/")[1])
        return life.subscriptions.pop(topic_filter, None) is not None

    def publish(self, message: Owed) -> bool:
        """Route a message; whether anybody subscribed."""
        matched = False
        if message.retain:
            self.retained[message.topic] = message
            self.said.setdefault(message.topic, []).append(message)
        for life in self.lives.values():
            granted = [
                qos
                for topic_filter, qos in life.subscriptions.items()
                if not topic_filter.startswith("$share/") and matches(topic_filter, message.topic)
            ]
            if granted:
                matched = True
                one = self._copy(message, max(granted))
                if one.qos or life.is_connected:
                    life.owed.append(one)
        for group, topic_filter in GROUPS.items():
            members = self.members(group)
            if members and matches(topic_filter, message.topic):
                matched = True
                wanted = self.lives[members[0]].subscriptions[f"$share/{group}/{topic_filter}"]
                self.shared[message.number] = self._copy(message, wanted, group)
        return matched

    def _copy(self, one: Owed, granted: int, group: str = "") -> Owed:
        qos = min(one.qos, granted)
        return Owed(
            one.number, one.topic, qos, False, one.publisher, one.expires_at, group,
            may_be_lost=not qos,
        )  # fmt: skip

    def answered(self, number: int) -> None:
        """The broker took responsibility: PUBACK or PUBREC left it."""
        self.acknowledged.add(number)
        for topic, said in self.said.items():
            if number in [one.number for one in said]:
                while said[0].number != number:
                    said.pop(0)
                self.said[topic] = said

    def sends(self, client_id: str, packet: p.Publish, now: float) -> Owed:
        """Judge a PUBLISH that leaves the broker; gives what it delivers."""
        life = self.lives[client_id]
        if packet.dup:
            known = life.inflight.get(packet.packet_id)
            assert known is not None, f"dup of nothing in flight: {packet}"
            assert known.number == int(packet.payload), "another message under this packet id"
            known.is_sent = True
            return known
        one = self._next(client_id, packet, now)
        assert (one.qos, one.topic, one.retain) == (packet.qos, packet.topic, packet.retain)
        late_for_the_store = packet.qos == 2  # its packet id had to reach the disk first
        assert late_for_the_store or not one.is_late(now), "sent after it had expired"
        one.is_sent = True
        if packet.qos:
            before = life.inflight.get(packet.packet_id)
            moved = before is not None and before.group and not before.is_sent
            assert moved or packet.packet_id not in life.inflight, "packet id in use"
            life.inflight[packet.packet_id] = one
        elif one.group:
            del self.shared[one.number]
        else:
            life.owed.remove(one)
        return one

    def _next(self, client_id: str, packet: p.Publish, now: float) -> Owed:
        life, number = self.lives[client_id], int(packet.payload)
        plain = [one for one in life.owed if not one.is_sent]
        came = number, packet.qos, packet.retain
        found = [one for one in plain if (one.number, one.qos, one.retain) == came]
        if found:
            one = found[0]
            for before in plain[: plain.index(one)]:
                same = (before.topic, before.publisher, before.qos, before.retain)
                in_order = same != (one.topic, one.publisher, one.qos, one.retain)
                assert in_order or before.is_late(now), f"{before.number} comes before {number}"
            return one
        shared = self.shared.get(number)
        assert shared is not None, f"{number} is not owed to {client_id}"
        assert not shared.is_sent, f"{number} was given to another member"
        member = client_id in self.members(shared.group)
        assert member or shared.group in life.left, f"{client_id} is not in {shared.group}"
        for other in self.lives.values():  # it stands where it was before it was handed on
            other.inflight = {key: one for key, one in other.inflight.items() if one is not shared}
        if packet.qos == 2:
            shared.holder = client_id
        return shared

    def received(self, client_id: str, packet_id: int) -> None:
        """PUBACK or PUBREC reached the broker: the message is delivered."""
        one = self.lives[client_id].inflight.get(packet_id)
        if one is None:
            return
        if one.group:
            self.shared.pop(one.number, None)
        elif one in self.lives[client_id].owed:
            self.lives[client_id].owed.remove(one)

    def completed(self, client_id: str, packet_id: int) -> None:
        """PUBACK or PUBCOMP reached the broker: the packet id is free."""
        self.lives[client_id].inflight.pop(packet_id, None)

    def missing(self, now: float) -> list[tuple[str, int]]:
        """Give what is owed still, as (client or group, message)."""
        owed = [
            (client_id, one)
            for client_id, life in self.lives.items()
            for one in life.owed
            if one.qos
        ]
        owed += [(one.group, one) for one in self.shared.values() if not one.may_be_lost]
        return [(who, one.number) for who, one in owed if not one.is_late(now)]
