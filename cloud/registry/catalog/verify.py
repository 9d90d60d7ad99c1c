"""The proof that nobody edited the catalog behind its back: pure, over what its caller reads."""

from collections.abc import Iterable

from cloud.registry.catalog.chain import EMPTY, verify_chain
from cloud.registry.catalog.memory_view import Key, MemoryView, key_of
from cloud.registry.catalog.project import Row
from cloud.registry.documents import Entry, Head
from shared.errors import Conflict, NotTrusted, Refused


def verify(entries: Iterable[Entry], rows: Iterable[Row]) -> Head:
    """Walk the whole log, and hold the tables' `rows` against what it comes to.

    An end that was cut off the log, with the rows that follow from it, is only seen by who kept a
    later head: replicas did. Raises `NotTrusted` with the first entry or row that is not right.
    """
    replayed = MemoryView()
    for entry in entries:
        try:
            verify_chain(replayed.head() if entry.seq > 1 else EMPTY, [entry])
            replayed.append(entry)
        except (Conflict, NotTrusted) as error:
            raise NotTrusted(f"the log does not hold together: {error}") from error
        except Refused as error:
            raise NotTrusted(
                f"log entry {entry.seq} cannot have been made here: {error}"
            ) from error
    found: dict[Key, Row] = {key_of(row): row for row in rows}
    for key, row in replayed.rows.items():
        if found.pop(key, None) != row:
            raise NotTrusted(f"{_words(key)} in the tables is not what the log says; restore it")
    for key in found:
        raise NotTrusted(f"{_words(key)} in the tables is in no log entry; remove it")
    return replayed.head()


def _words(key: Key) -> str:
    return " ".join(map(str, key))
