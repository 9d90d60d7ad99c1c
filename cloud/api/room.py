"""Memory for the bodies of all requests in hand, bounded: many clients may each send a big one,
slowly. Pure.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from shared.errors import Overloaded


class Room:
    """So many bytes for all."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.taken_bytes = 0

    def take(self, count: int) -> None:
        """Raises `Overloaded` where so much is not left."""
        if self.taken_bytes + count > self._bytes_max:
            raise Overloaded(
                f"the bodies of other requests fill the {self._bytes_max} bytes there are for them; "
                "send this one again in a second"
            )
        self.taken_bytes += count

    def give_back(self, count: int) -> None:
        self.taken_bytes -= count

    @contextmanager
    def share(self) -> Iterator["Share"]:
        """One request's part, which is given back at the end of the block."""
        share = Share(self)
        try:
            yield share
        finally:
            self.give_back(share.taken_bytes)


class Share:
    """What one request has taken."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.taken_bytes = 0

    def take(self, count: int) -> None:
        """Raises `Overloaded`."""
        self._room.take(count)
        self.taken_bytes += count
