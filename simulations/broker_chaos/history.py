"""All journals of a storm as one, indexed for the checks. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from cloud.broker.codec.topics import matches
from simulations.broker_chaos.journal import Event, Saw
from simulations.broker_chaos.plan import READERS, ReaderRole

ROLES: dict[str, ReaderRole] = {one.client_id: one for each in READERS.values() for one in each}
NOBODY = 0x10
FAILURE = 0x80


@dataclass(slots=True)
class History:
    """What happened, as the clients saw it."""

    sent: dict[str, Event] = field(default_factory=dict)
    """By message."""
    acked: dict[str, Event] = field(default_factory=dict)
    received: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    """By client, in its order."""
    copies: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """By client: how often it got each message."""
    lives: dict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    """By client: its connections and subscriptions."""
    users: dict[str, str] = field(default_factory=dict)
    wills: list[Event] = field(default_factory=list)
    refused: list[Event] = field(default_factory=list)
    """Answers that intruders got."""
    silent: list[Event] = field(default_factory=list)
    """Messages that waited too long for an answer."""
    kills: list[Event] = field(default_factory=list)

    def add(self, events: Iterable[Event]) -> None:
        """Take more entries, in the order of their journal."""
        for event in events:
            match event.saw:
                case Saw.SENT:
                    self.sent[event.message] = event
                case Saw.ACKED if event.message.startswith("evil/"):
                    self.refused.append(event)
                case Saw.ACKED:
                    self.acked[event.message] = event
                case Saw.RECEIVED:
                    self.received[event.client].append(event)
                    self.copies[event.client][event.message] += 1
                case Saw.CONNECTED | Saw.SUBSCRIBED:
                    if event.detail:
                        self.users[event.client] = event.detail
                    self.lives[event.client].append(event)
                case Saw.WILL:
                    self.wills.append(event)
                case Saw.SILENT:
                    self.silent.append(event)
                case Saw.KILLED:
                    self.kills.append(event)
                case _:
                    pass

    def subscribed(self, client_id: str, topic: str) -> tuple[int, int] | None:
        """Give since when a reader has a subscription that matches a topic, and its highest QoS."""
        found = [
            event
            for event in self.lives.get(client_id, ())
            if event.saw is Saw.SUBSCRIBED
            and event.code < FAILURE
            and matches(plain(event.topic), topic)
        ]
        if not found:
            return None
        return min(event.at for event in found), max(event.code for event in found)

    def succeeded(self) -> list[Event]:
        """Give the messages that were acknowledged without failure, as sent."""
        return [
            self.sent[message]
            for message, event in self.acked.items()
            if event.code < FAILURE and message in self.sent
        ]

    def readers(self, topic: str) -> list[tuple[ReaderRole, int, int]]:
        """Give the durable readers of a topic, since when and with which QoS; no share members."""
        found = []
        for role in ROLES.values():
            since = None if role.is_member else self.subscribed(role.client_id, topic)
            if since is not None:
                found.append((role, *since))
        return found

    def missing(self) -> int:
        """Count deliveries that are owed still."""
        owed = 0
        by_topic: dict[str, list[Event]] = defaultdict(list)
        for event in self.succeeded():
            by_topic[event.topic].append(event)
        members = [role.client_id for role in ROLES.values() if role.is_member]
        for topic, events in by_topic.items():
            for role, since, _ in self.readers(topic):
                if not role.may_miss:
                    got = self.copies[role.client_id]
                    owed += sum(one.message not in got for one in events if one.at > since)
            shares = [self.copies[one] for one in members if self.subscribed(one, topic)]
            if shares:
                owed += sum(not any(one.message in got for got in shares) for one in events)
        return owed


def plain(topic_filter: str) -> str:
    """Take `$share/group/` off a filter."""
    return topic_filter.split("/", 2)[2] if topic_filter.startswith("$share/") else topic_filter


def number(message: str) -> int:
    """Give the place of a message among its publisher's."""
    return int(message.rpartition("/")[2])
