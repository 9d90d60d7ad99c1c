"""What one client may publish and subscribe to. Pure.

`$SYS` and what is below it belong to the broker: no client publishes there, whatever a file says.
"""

import sys
from typing import Final

from cloud.broker.access.filters import covers, overlaps
from cloud.broker.codec.topics import matches

REMEMBERED_BYTES_MAX: Final = 65_536
"""Topics and answers that one client's rules remember: some 400 topics of Hybridge's scheme."""
_ENTRY_BYTES: Final = 100
"""A dict slot, about, beside the topic itself."""


class Rules:
    """The rules for one client; the broker asks them for each PUBLISH and SUBSCRIBE."""

    __slots__ = ("_deny", "_is_open", "_known", "_known_bytes", "_read", "_write")

    def __init__(
        self,
        read: tuple[str, ...] = (),
        write: tuple[str, ...] = (),
        deny: tuple[str, ...] = (),
        *,
        is_open: bool = False,
    ) -> None:
        """Keep well formed filters; `is_open` allows what the others do not speak of."""
        self._read = read
        self._write = write
        self._deny = deny
        self._is_open = is_open
        self._known: dict[str, bool] = {}
        self._known_bytes = 0

    def may_publish(self, topic: str) -> bool:
        """Say whether a message (or will) may go to this topic name: one dict lookup when known."""
        known = self._known.get(topic)
        return self._judge(topic) if known is None else known

    def may_subscribe(self, topic_filter: str) -> bool:
        """Say whether a filter is granted; `$share/group/` is taken off."""
        return self.reading(topic_filter) is not None

    def reading(self, topic_filter: str) -> tuple[str, ...] | None:
        """Give the filters denied within one that is granted, often none; None: it is refused.

        One filter that may be read covers it whole, so a message that it brings needs another look
        only for what is denied within, which the router remembers for each topic.
        """
        if any(covers(denied, topic_filter) for denied in self._deny):
            return None
        if self._is_open or any(covers(allowed, topic_filter) for allowed in self._read):
            return tuple(denied for denied in self._deny if overlaps(denied, topic_filter))
        return None

    def _judge(self, topic: str) -> bool:
        allowed = (
            not (topic == "$SYS" or topic.startswith("$SYS/"))
            and (self._is_open or any(matches(one, topic) for one in self._write))
            and not any(matches(one, topic) for one in self._deny)
        )
        self._remember(topic, allowed)
        return allowed

    def _remember(self, topic: str, allowed: bool) -> None:
        # a client may name 65,535 bytes of topic, a new one each time
        cost = sys.getsizeof(topic) + _ENTRY_BYTES
        if self._known_bytes + cost > REMEMBERED_BYTES_MAX:
            self._known.clear()
            self._known_bytes = 0
        if cost <= REMEMBERED_BYTES_MAX:
            self._known[topic] = allowed
            self._known_bytes += cost


OPEN: Final = Rules(is_open=True)
"""Where there is no ACL file, and for the owner. Shared: it holds nothing of a client's."""
NOTHING: Final = Rules()
"""No topic at all."""
