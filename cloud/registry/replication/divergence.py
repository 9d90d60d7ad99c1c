"""What only this registry has, after another was promoted: found, and written aside for people."""

import asyncio
import json
from pathlib import Path

from cloud.registry.catalog.chain import EMPTY, head_of
from cloud.registry.documents import Entry, Head
from cloud.registry.replication.change_log import Log
from cloud.registry.replication.fork_search import ForkSearch
from cloud.registry.replication.peer import Peer
from cloud.registry.replication.signed_heads import is_signed
from cloud.registry.replication.trusted_root import TrustedRoot
from cloud.registry.replication.verdict import Fits, Unfit, judge
from shared.disk import write_whole
from shared.errors import NotTrusted, Unavailable

_BATCH = 500


async def fork_of(catalog: Log, peer: Peer, root: TrustedRoot) -> int:
    """The last entry that this registry shares with `peer`, which a verified root made home.

    Raises `NotTrusted` where its answers are not signed as that root asks, `Unavailable` and others
    as `peer` does.
    """
    search = ForkSearch.of((await asyncio.to_thread(catalog.head)).seq)
    while (probe := search.probe) is not None:
        own = await asyncio.to_thread(head_at, catalog, probe)
        answer = await peer.log(probe, 1, 0.0)
        verdict = judge(own, answer, epoch=root.epoch, signed=is_signed(root, answer))
        if isinstance(verdict, Unfit) and verdict.fault != "behind":
            raise NotTrusted(f"{peer.url}: {verdict.why}")
        search = search.after(probe, is_shared=isinstance(verdict, Fits))
    return search.shared


def head_at(catalog: Log, seq: int) -> Head:
    """The log's end as it was after entry `seq`. Raises `Unavailable` where there is none."""
    if seq == 0:
        return EMPTY
    entries = catalog.log(seq - 1, 1)
    if not entries or entries[0].seq != seq:
        raise Unavailable(f"the log has no entry {seq}")
    return head_of(entries[0])


def write_aside(catalog: Log, fork_seq: int, folder: Path) -> tuple[Path, int]:
    """Everything after `fork_seq` into a JSON file of its own; where, and how many entries.

    Raises `Unavailable` where it cannot be written.
    """
    entries: list[Entry] = []
    after = fork_seq
    while batch := catalog.log(after, _BATCH):
        entries += batch
        after = batch[-1].seq
    end = catalog.head()
    name = f"divergent-epoch-{end.epoch}-entries-{fork_seq + 1}-to-{after}.json"
    document = {
        "format": 1,
        "fork": head_at(catalog, fork_seq).model_dump(mode="json"),
        "entries": [entry.model_dump(mode="json") for entry in entries],
    }
    path = folder / name
    write_whole(path, json.dumps(document, indent=1).encode())
    return path, len(entries)
