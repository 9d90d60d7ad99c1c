"""Where two logs part, in as few questions as it takes. Pure: a binary search.

Entries are chained by hash, so two logs that have the same entry at one place have all before it in
common too.
"""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ForkSearch:
    """`shared`: the last entry known to be in both; `differs`: the first known not to be."""

    shared: int
    differs: int

    @classmethod
    def of(cls, end: int) -> "ForkSearch":
        """`end`: the last entry here."""
        return cls(0, end + 1)

    @property
    def probe(self) -> int | None:
        """The entry to ask about next; None: `shared` is where they part."""
        if self.differs - self.shared == 1:
            return None
        return (self.shared + self.differs) // 2

    def after(self, probe: int, *, is_shared: bool) -> "ForkSearch":
        return replace(self, shared=probe) if is_shared else replace(self, differs=probe)
