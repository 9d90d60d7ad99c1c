"""What the outbox may hold: who leaves first when it is full, and who has waited too long. Pure."""

from edge.journal.rows import Waiting
from edge.uplink.ranked import Ranked
from shared.ids import SampleId


class Quota:
    """Mirrors the outbox on disk, by size and deadline alone."""

    def __init__(self, bytes_max: int, rows_max: int) -> None:
        self._bytes_max, self._rows_max = bytes_max, rows_max
        self._rows: dict[SampleId, Waiting] = {}
        self._least_wanted = Ranked[SampleId]()
        self._by_deadline = Ranked[SampleId]()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._rows)

    def admit(self, row: Waiting) -> list[Waiting]:
        """Add a row; returns who has to leave for it, perhaps the row itself.

        Audits leave before escalations, the most confident escalation before others.
        """
        self._rows[row.id] = row
        self.bytes += row.bytes
        self._least_wanted.add(row.id, -row.audit, -row.confidence)
        self._by_deadline.add(row.id, row.deadline_s)
        out = []
        while self.bytes > self._bytes_max or len(self._rows) > self._rows_max:
            first = self._least_wanted.first()
            assert first is not None
            out.append(self._remove(first[0]))
        return out

    def discard(self, sample: SampleId) -> None:
        if sample in self._rows:
            self._remove(sample)

    def expire(self, now: float) -> list[Waiting]:
        """Remove and return whatever is past its deadline."""
        out = []
        while (first := self._by_deadline.first()) is not None and first[1][0] <= now:
            out.append(self._remove(first[0]))
        return out

    def expires_at(self) -> float | None:
        first = self._by_deadline.first()
        return None if first is None else first[1][0]

    def _remove(self, sample: SampleId) -> Waiting:
        row = self._rows.pop(sample)
        self.bytes -= row.bytes
        self._least_wanted.discard(sample)
        self._by_deadline.discard(sample)
        return row
