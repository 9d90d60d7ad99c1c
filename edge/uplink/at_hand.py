"""The newest waiting escalations in memory, so that sending them need not read the disk."""

from collections import OrderedDict

from edge.journal.journal import Journal
from edge.journal.rows import Damaged, Pending
from shared.ids import SampleId

_IN_MEMORY_MAX = 1000  # rows; others are read from disk when they are sent


class AtHand:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._rows = OrderedDict[SampleId, Pending]()

    def keep(self, pending: Pending) -> None:
        self._rows[pending.id] = pending
        if len(self._rows) > _IN_MEMORY_MAX:
            self._rows.popitem(last=False)

    def forget(self, sample: SampleId) -> None:
        self._rows.pop(sample, None)

    def __getitem__(self, sample: SampleId) -> Pending | Damaged:
        pending = self._rows.get(sample) or self._journal.pending(sample)
        assert pending is not None, "whatever the sender knows is in the journal"
        return pending
