"""Retained messages, at most one a topic, bounded in number and bytes (3.3.1.3). Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from cloud.broker.session.changes import Changes
from cloud.broker.session.messages import Message


@dataclass(slots=True)
class _Node:
    children: dict[str, "_Node"] = field(default_factory=dict)
    message: Message | None = None


class RetainedMessages:
    """The last message of each topic published with RETAIN, in a tree of topic levels."""

    def __init__(self, count_max: int, bytes_max: int, changes: Changes | None = None) -> None:
        """Keep at most so many messages and bytes; note in `changes` what the store must keep."""
        self.count = 0
        self.held_bytes = 0
        self._root = _Node()
        self._count_max, self._bytes_max, self._changes = count_max, bytes_max, changes

    def store(self, message: Message, now: float) -> bool:
        """Replace or, with an empty payload, clear a topic's message; False if it did not fit."""
        old = next(self.matching(message.topic, now), None)
        if message.payload and not self._fits(message, old):
            for one in list(self._below(self._root)):
                if one.is_expired(now):
                    self._remove(one)
            if not self._fits(message, old):
                return False
        if old is not None:
            self._remove(old)
        if message.payload:
            self.adopt(message)
            if self._changes is not None and not message.topic.startswith("$"):
                self._changes.retained(message.topic, message)
        return True

    def adopt(self, message: Message) -> None:
        """Take a message that the store holds, or will, for a topic that has none."""
        node = self._root
        for level in message.topic.split("/"):
            node = node.children.setdefault(level, _Node())
        node.message = message
        self.count += 1
        self.held_bytes += message.size_bytes

    def matching(self, topic_filter: str, now: float) -> Iterator[Message]:
        """Give the messages that fit a filter and have not expired."""
        nodes = [self._root]
        rest: list[_Node] = []
        levels = topic_filter.split("/")
        for index, level in enumerate(levels):
            if level == "#":
                rest = nodes if index else self._not_system()
                nodes = nodes if index else []
                break
            if level == "+":
                below = [one for node in nodes for one in node.children.values()]
                nodes = below if index else self._not_system()
            else:
                nodes = [node.children[level] for node in nodes if level in node.children]
        found = [node.message for node in nodes if node.message is not None]
        if levels[-1] == "#":
            found = [message for node in rest for message in self._below(node)]
        for message in found:
            if message.is_expired(now):
                self._remove(message)
            else:
                yield message

    def _not_system(self) -> list[_Node]:
        """Give first levels that a wildcard matches (4.7.2-1)."""
        return [node for level, node in self._root.children.items() if not level.startswith("$")]

    def _below(self, node: _Node) -> Iterator[Message]:
        nodes = [node]
        while nodes:
            node = nodes.pop()
            if node.message is not None:
                yield node.message
            nodes.extend(node.children.values())

    def _fits(self, message: Message, old: Message | None) -> bool:
        count = self.count + (old is None)
        size = self.held_bytes + message.size_bytes - (old.size_bytes if old else 0)
        return count <= self._count_max and size <= self._bytes_max

    def _remove(self, message: Message) -> None:
        path = [self._root]
        levels = message.topic.split("/")
        for level in levels:
            path.append(path[-1].children[level])
        path[-1].message = None
        while len(path) > 1 and path[-1].message is None and not path[-1].children:
            path.pop()
            del path[-1].children[levels[len(path) - 1]]
        self.count -= 1
        self.held_bytes -= message.size_bytes
        if self._changes is not None and message.kept is not None:
            self._changes.retained(message.topic, None)
            self._changes.release(message)
