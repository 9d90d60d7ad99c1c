"""Topic aliases, both ways (3.3.2.3.4): numbers that stand for topics on one connection. Pure."""

from typing import Final

from cloud.broker.codec import packets as p
from cloud.broker.codec.properties import Properties, PropertyId, integer
from cloud.broker.codec.reasons import BrokenRule, ReasonCode, protocol_error

WORTH_BYTES: Final = 4
"""An alias costs three bytes in each packet, so a shorter topic goes as it is."""


class ReceivedAliases:
    """What the client's aliases stand for."""

    __slots__ = ("_maximum", "_topics")

    def __init__(self, maximum: int) -> None:
        """Allow aliases up to `maximum`."""
        self._maximum = maximum
        self._topics: dict[int, str] = {}

    def topic(self, packet: p.Publish) -> str:
        """Set or look up; raises `BrokenRule` 0x94, or 0x82 for one never set."""
        alias = integer(packet.properties, PropertyId.TOPIC_ALIAS, 0)
        if not alias:
            return packet.topic
        if alias > self._maximum:
            raise BrokenRule(ReasonCode.TOPIC_ALIAS_INVALID, f"topic alias {alias} is too high")
        if packet.topic:
            self._topics[alias] = packet.topic
        elif alias not in self._topics:
            raise protocol_error(f"topic alias {alias} was never set")
        return self._topics[alias]


class SentAliases:
    """Aliases for the first topics sent, as many as the client takes; they stay as they are."""

    __slots__ = ("_aliases", "_maximum", "_new")

    def __init__(self, maximum: int) -> None:
        """Set at most `maximum`."""
        self._maximum = maximum
        self._aliases: dict[str, int] = {}
        self._new: str | None = None

    def shorten(self, topic: str, found: Properties) -> tuple[str, Properties]:
        """Give the topic and properties to send; a new alias counts only after `keep`."""
        self._new = None
        alias = self._aliases.get(topic)
        if alias is not None:
            return "", (*found, (PropertyId.TOPIC_ALIAS, alias))
        if len(self._aliases) >= self._maximum or len(topic) < WORTH_BYTES:
            return topic, found
        self._new = topic
        return topic, (*found, (PropertyId.TOPIC_ALIAS, len(self._aliases) + 1))

    def keep(self) -> None:
        """Note that what `shorten` gave was sent."""
        if self._new is not None:
            self._aliases[self._new] = len(self._aliases) + 1
