"""Logs for tests: chained as the real ones are, and answers about them."""

from collections.abc import Sequence

from cloud.registry.catalog.chain import EMPTY, PROMOTED, entry_after, head_of
from cloud.registry.documents import Entry, Head
from cloud.registry.replication.log_answer import LogAnswer


def grown(log: Sequence[Entry], count: int, tag: str = "a") -> list[Entry]:
    """`log` with so many more entries; another `tag` gives others."""
    entries = list(log)
    for _ in range(count):
        head = end_of(entries)
        entries.append(
            entry_after(head, head.epoch, 1.0, tag, "model.set", {"model": f"{tag}{head.seq}"})
        )
    return entries


def promoted(log: Sequence[Entry]) -> list[Entry]:
    head = end_of(log)
    change = {"epoch": head.epoch + 1, "comment": ""}
    return [*log, entry_after(head, head.epoch + 1, 1.0, "op", PROMOTED, dict(change))]


def end_of(log: Sequence[Entry]) -> Head:
    return head_of(log[-1]) if log else EMPTY


def answer_of(log: Sequence[Entry], after: int, limit: int = 1000) -> LogAnswer:
    """As a home with this log gives it."""
    entries = tuple(log[after : after + limit])
    end = head_of(entries[-1]) if entries else end_of(log)
    head = end.model_copy(update={"epoch": end_of(log).epoch})
    return LogAnswer(entries=entries, head=head, signature="", newest=len(log))
