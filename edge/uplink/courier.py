"""Messages of the fleet on the way up: at most one in the window at a time, of each topic the newest.

So escalations keep the window, whatever the fleet has to say. Pure.
"""

from dataclasses import dataclass

TOPICS_MAX = 16


@dataclass(frozen=True, slots=True)
class Letter:
    topic: str
    payload: bytes
    retain: bool = False
    expiry_s: int | None = None


class Courier:
    def __init__(self) -> None:
        self._waiting: dict[str, Letter] = {}  # by topic, first come first
        self._out = False

    def put(self, letter: Letter) -> bool:
        """Take a letter in place of one of its topic that still waits; whether there was one.

        Topics beyond `TOPICS_MAX` are a bug: an agent has six.
        """
        assert letter.topic in self._waiting or len(self._waiting) < TOPICS_MAX
        waited = letter.topic in self._waiting
        self._waiting[letter.topic] = letter
        return waited

    def next(self) -> Letter | None:
        """Whom to publish now, window permitting; say `sent` when it is."""
        return None if self._out else next(iter(self._waiting.values()), None)

    def sent(self, letter: Letter) -> None:
        self._out = True
        if self._waiting.get(letter.topic) is letter:
            del self._waiting[letter.topic]

    def settled(self) -> None:
        """It was acknowledged, or its link was lost: whoever wrote it writes again when it is back."""
        self._out = False
