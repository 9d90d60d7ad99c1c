"""Retained messages, at most one a topic, bounded in number and bytes (3.3.1.3). Pure."""

from collections.abc import Iterator

from cloud.broker.codec.topics import matches
from cloud.broker.session.messages import Message


class RetainedMessages:
    """The last message of each topic published with RETAIN.

    A wildcard filter looks at every topic: 5 ms at the default bound of 10,000, only when somebody
    subscribes.
    """

    def __init__(self, count_max: int, bytes_max: int) -> None:
        """Keep at most so many messages and bytes."""
        self.messages: dict[str, Message] = {}
        self.held_bytes = 0
        self._count_max, self._bytes_max = count_max, bytes_max

    def store(self, message: Message, now: float) -> bool:
        """Replace or, with an empty payload, clear a topic's message; False if it did not fit."""
        old = self.messages.get(message.topic)
        if not message.payload:
            if old is not None:
                self._remove(old)
            return True
        if not self._fits(message, old):
            for one in [one for one in self.messages.values() if one.is_expired(now)]:
                self._remove(one)
            old = self.messages.get(message.topic)
            if not self._fits(message, old):
                return False
        if old is not None:
            self._remove(old)
        self.messages[message.topic] = message
        self.held_bytes += message.size_bytes
        return True

    def matching(self, topic_filter: str, now: float) -> Iterator[Message]:
        """Give the messages that fit a filter and have not expired."""
        if "+" not in topic_filter and "#" not in topic_filter:
            exact = self.messages.get(topic_filter)
            found = [exact] if exact is not None else []
        else:
            found = [one for one in self.messages.values() if matches(topic_filter, one.topic)]
        for message in found:
            if message.is_expired(now):
                self._remove(message)
            else:
                yield message

    def _fits(self, message: Message, old: Message | None) -> bool:
        count = len(self.messages) + (old is None)
        size = self.held_bytes + message.size_bytes - (old.size_bytes if old else 0)
        return count <= self._count_max and size <= self._bytes_max

    def _remove(self, message: Message) -> None:
        del self.messages[message.topic]
        self.held_bytes -= message.size_bytes
