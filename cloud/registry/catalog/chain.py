"""The log's chain: each entry's hash is of its canonical JSON, in which the one before it stands.

Pure. Canonical: keys sorted, no space, UTF-8 as is, numbers as Python writes them (the shortest
digits that give the same float), like RFC 8785 but for the form of numbers.
"""

import hashlib
import json
from collections.abc import Iterable
from typing import Final

from pydantic import JsonValue

from cloud.registry.catalog.bounds import ENTRY_BYTES_MAX, check_tree
from cloud.registry.documents import Entry, Head
from shared.errors import Conflict, NotTrusted, TooLarge

EMPTY: Final = Head(epoch=1, seq=0, sha256="0" * 64)
"""Of a log without entries."""
PROMOTED: Final = "registry.promoted"
"""The kind of an entry that begins an epoch; no other may."""


def canonical(value: JsonValue) -> bytes:
    """Raises `ValueError` for what `check_tree` refuses."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def entry_after(
    head: Head, epoch: int, at: float, actor: str, kind: str, change: dict[str, JsonValue]
) -> Entry:
    """Chain the next entry. Raises `Malformed` and `TooLarge` for a change over its bounds."""
    check_tree(change, kind)
    if (size := len(canonical(change))) > ENTRY_BYTES_MAX:
        raise TooLarge(
            f"{kind} has {size} bytes, over the {ENTRY_BYTES_MAX} that one change may have; keep "
            "long metadata in an artifact"
        )
    entry = Entry(
        seq=head.seq + 1, epoch=epoch, at=at, actor=actor, kind=kind, change=change,
        previous=head.sha256, sha256="0" * 64,
    )  # fmt: skip
    return entry.model_copy(update={"sha256": hash_of(entry)})


def hash_of(entry: Entry) -> str:
    """SHA-256, in hex, of all in the entry but `sha256`."""
    return hashlib.sha256(
        canonical({
            "seq": entry.seq, "epoch": entry.epoch, "at": entry.at, "actor": entry.actor,
            "kind": entry.kind, "change": entry.change, "previous": entry.previous,
        })
    ).hexdigest()  # fmt: skip


def head_of(entry: Entry) -> Head:
    return Head(epoch=entry.epoch, seq=entry.seq, sha256=entry.sha256)


def verify_chain(head: Head, entries: Iterable[Entry]) -> Head:
    """Walk on from `head` and give the new one.

    Raises `NotTrusted` for an entry that is not what its hash says, `Conflict` for a gap, a fork
    or an epoch that falls or begins without a promotion.
    """
    for entry in entries:
        where = f"log entry {entry.seq}"
        check_tree(entry.change, where)
        if hash_of(entry) != entry.sha256:
            raise NotTrusted(f"{where} was altered: its hash does not fit its content")
        if entry.seq != head.seq + 1:
            raise Conflict(f"{where} comes after {head.seq}: entries between are missing")
        if entry.previous != head.sha256:
            raise Conflict(
                f"{where} follows another entry {head.seq} than the one here: the logs have forked"
            )
        if entry.epoch != head.epoch and not (entry.epoch > head.epoch and entry.kind == PROMOTED):
            raise Conflict(
                f"{where} is of epoch {entry.epoch} after {head.epoch}; an epoch begins with a "
                "promotion and never falls"
            )
        head = head_of(entry)
    return head
