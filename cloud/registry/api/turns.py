"""A bounded number of things at once; who comes beyond it is told to come again, never queued."""

from collections.abc import Iterator
from contextlib import contextmanager

from shared.errors import Overloaded


class Turns:
    """`what` names them in messages."""

    def __init__(self, what: str, count_max: int) -> None:
        self._what, self._count_max = what, count_max
        self.taken = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        """Raises `Overloaded`."""
        if self.taken >= self._count_max:
            raise Overloaded(
                f"{self.taken} {self._what} are under way, as many as there may be; come again", 1.0
            )
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
