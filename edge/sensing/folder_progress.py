"""Which files of a folder are complete, and which have been read already. Pure.

Files are ordered by their inode change time, then by name. That time is the kernel's: it moves with
every write and every rename, and cannot be set back, as a modification time can (`cp -p`).
"""

import heapq
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, Self

from shared.errors import Malformed

PENDING_MAX = 10_000  # files looked at in one round; more have to wait for the next
INSTANT_NAMES_MAX = 64  # names of one instant in a cursor, which may have 64 KiB


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    changed_ns: int
    name: str
    size: int


class Progress(Protocol):
    """What was read already; its text is the cursor."""

    def covers(self, entry: Entry) -> bool: ...

    def past(self, entries: Iterable[Entry]) -> Self: ...

    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Mark:
    """For files that are kept: everything up to a moment, and names within that moment.

    Of more than `INSTANT_NAMES_MAX` names in one moment, those up to `floor` in the alphabet count
    as read. A clock that is set back hides new files until it has caught up with the mark.
    """

    changed_ns: int = -1
    names: frozenset[str] = frozenset()
    floor: str = ""

    def covers(self, entry: Entry) -> bool:
        if entry.changed_ns != self.changed_ns:
            return entry.changed_ns < self.changed_ns
        return entry.name in self.names or entry.name <= self.floor

    def past(self, entries: Iterable[Entry]) -> "Mark":
        mark = self
        for entry in sorted(entries):
            if entry.changed_ns > mark.changed_ns:
                mark = Mark(entry.changed_ns, frozenset({entry.name}))
            elif entry.changed_ns == mark.changed_ns:
                names = sorted(mark.names | {entry.name})
                dropped = names[:-INSTANT_NAMES_MAX]
                mark = Mark(
                    mark.changed_ns,
                    frozenset(names[-INSTANT_NAMES_MAX:]),
                    max([mark.floor, *dropped]),
                )
        return mark

    def text(self) -> str:
        return json.dumps([self.changed_ns, sorted(self.names), self.floor])

    @classmethod
    def parse(cls, text: str | None) -> "Mark":
        """Raises `Malformed`."""
        match _loaded(text, []):
            case []:
                return cls()
            case [int(changed_ns), [*names], str(floor)] if all(isinstance(n, str) for n in names):
                return cls(changed_ns, frozenset(map(str, names)), floor)
            case other:
                raise Malformed(f"cursor of a folder is {str(other)[:80]!r}; expected a mark")


@dataclass(frozen=True, slots=True)
class Latest:
    """For files that are deleted: exactly those of the last chunk, which a crash may have left."""

    entries: frozenset[Entry] = frozenset()

    def covers(self, entry: Entry) -> bool:
        return entry in self.entries

    def past(self, entries: Iterable[Entry]) -> "Latest":
        return Latest(frozenset(entries))

    def text(self) -> str:
        return json.dumps([[e.changed_ns, e.name, e.size] for e in sorted(self.entries)])

    @classmethod
    def parse(cls, text: str | None) -> "Latest":
        """Raises `Malformed`."""
        entries = set[Entry]()
        for item in _loaded(text, []):
            match item:
                case [int(changed_ns), str(name), int(size)]:
                    entries.add(Entry(changed_ns, name, size))
                case other:
                    raise Malformed(f"cursor of a folder holds {str(other)[:80]!r}, no file")
        return cls(frozenset(entries))


def oldest(entries: Iterable[Entry]) -> list[Entry]:
    """The first `PENDING_MAX` in order, in memory for no more than that."""
    return heapq.nsmallest(PENDING_MAX, entries)


def complete(found: Iterable[Entry], before: frozenset[Entry]) -> list[Entry]:
    """Of `found`, in order: those that stand as they stood a round before, up to the first that
    does not. A file that is still being written moves to the end with each write, so it holds up
    none but itself; and no mark ever passes an unfinished file.
    """
    ready = list[Entry]()
    for entry in found:
        if entry not in before:
            break
        ready.append(entry)
    return ready


def _loaded(text: str | None, default: list[object]) -> list[object]:
    if text is None:
        return default
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"cursor of a folder is {text[:80]!r}; expected JSON") from error
    if not isinstance(value, list):
        raise Malformed(f"cursor of a folder is {text[:80]!r}; expected a JSON array")
    return value
