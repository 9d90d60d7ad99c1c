"""A job as the pure queue sees one: time is a number here, so nothing sleeps."""

from dataclasses import dataclass

NEVER = 1e9
INTERACTIVE, NEAR_LINE, BULK = 1, 2, 3


@dataclass(eq=False)
class Waiter:
    name: str
    n: int = 1
    deadline: float = NEVER
    priority: int = INTERACTIVE
    added: float = 0.0

    @property
    def rows(self) -> bytes:
        return bytes(self.n)

    def __repr__(self) -> str:
        return self.name
