"""Retained messages, at most one a topic, bounded in number and bytes (3.3.1.3). Pure."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Final

from cloud.broker.session.changes import Changes
from cloud.broker.session.messages import Message

SLICE: Final = 256
"""Levels looked at between two breaths of a search: 0.1 ms."""


@dataclass(slots=True)
class _Node:
    children: dict[str, "_Node"] = field(default_factory=dict)
    message: Message | None = None
    serial: int = 0
    """Of the message: they are numbered as they come."""


class RetainedMessages:
    """The last message of each topic published with RETAIN, in a tree of topic levels."""

    def __init__(self, count_max: int, bytes_max: int, changes: Changes | None = None) -> None:
        """Keep at most so many messages and bytes; note in `changes` what the store must keep."""
        self.count = 0
        self.held_bytes = 0
        self._last_serial = 0
        self._root = _Node()
        self._count_max, self._bytes_max, self._changes = count_max, bytes_max, changes

    def store(self, message: Message, now: float) -> bool:
        """Replace or, with an empty payload, clear a topic's message; False if it did not fit."""
        old = self._get(message.topic)
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
        self._last_serial += 1
        node.message, node.serial = message, self._last_serial
        self.count += 1
        self.held_bytes += message.size_bytes

    def search(self, topic_filter: str) -> Generator[Message | None, float, None]:
        """Find the messages that fit a filter and have not expired, a slice at a time.

        Prime it with `next`, then `send` it the time: it gives a message, or None after `SLICE`
        levels so that others get their turn. What is retained after the start it passes over: a
        subscriber gets that as it is published.
        """
        levels, last_serial = topic_filter.split("/"), self._last_serial
        found: list[tuple[_Node, int]] = [(self._root, 0)]
        visited = 0
        now = yield None
        while found:
            node, at = found.pop()
            visited += 1
            if visited % SLICE == 0:
                now = yield None
            level = levels[at] if at < len(levels) else None
            if level in ("+", "#"):
                below = at + (level == "+")
                found += [
                    (child, below)
                    for name, child in node.children.items()
                    if node is not self._root or not name.startswith("$")  # 4.7.2-1
                ]
            elif level is not None and (child := node.children.get(level)) is not None:
                found.append((child, at + 1))
            if node.message is None or node.serial > last_serial:
                continue
            if level in (None, "#"):
                if node.message.is_expired(now):
                    self._remove(node.message)
                else:
                    now = yield node.message

    def matching(self, topic_filter: str, now: float) -> Iterator[Message]:
        """Give all that `search` finds, at once."""
        search = self.search(topic_filter)
        next(search)
        try:
            while True:
                message = search.send(now)
                if message is not None:
                    yield message
        except StopIteration:
            return

    def _get(self, topic: str) -> Message | None:
        node: _Node | None = self._root
        for level in topic.split("/"):
            node = node.children.get(level) if node is not None else None
        return node.message if node is not None else None

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
