"""The samples that wait for the cloud: on disk, at hand, in the quota and with the sender at once.

One way in and one way out, so that the four agree; who leaves without an answer has a line in the
loss ledger.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from edge.answers import Answer
from edge.journal.journal import Journal
from edge.journal.rows import Damaged, Pending, waiting_of
from edge.journal.writes import GivenUp
from edge.telemetry.counters import Counters
from edge.uplink.at_hand import AtHand
from edge.uplink.quota import Quota
from edge.uplink.sender import Sender
from shared.ids import SampleId


class Outbox:
    def __init__(
        self,
        journal: Journal,
        quota: Quota,
        sender: Sender,
        on_final: Callable[[Answer], None],
        counters: Counters,
        stray: Callable[[str, str], None],
    ) -> None:
        self._journal, self._quota, self._sender = journal, quota, sender
        self._on_final, self._counters, self._stray = on_final, counters, stray
        self._at_hand = AtHand(journal)
        journal.on_dropped = self._dropped

    @property
    def depth(self) -> tuple[int, int]:
        """Rows and bytes."""
        return len(self._quota), self._quota.bytes

    def restore(self) -> None:
        """Take over what an earlier process left; before anything is admitted."""
        for row in self._journal.outbox():
            self._sender.add(row, fresh_until=-math.inf)
            for pushed in self._quota.admit(row):
                self.give_up(pushed.id, "outbox_full")

    def admit(self, pending: Pending, fresh_until: float) -> None:
        """Take a sample that was just recorded as opened."""
        row = waiting_of(pending)
        self._at_hand.keep(pending)
        self._sender.add(row, fresh_until)
        for pushed in self._quota.admit(row):
            self.give_up(pushed.id, "outbox_full")

    def expire(self, now: float) -> None:
        for expired in self._quota.expire(now):
            self.give_up(expired.id, "expired")

    def expires_at(self) -> float | None:
        return self._quota.expires_at()

    def pending(self, sample: SampleId) -> Pending | None:
        """None, and a line in the ledger, where the disk has spoilt the row."""
        pending = self._at_hand[sample]
        if isinstance(pending, Damaged):
            self._stray("outbox_row_damaged", f"{sample}: {pending.why}; check the disk")
            self._write_off(pending.answer, "damaged")
            return None
        return pending

    def give_up(self, sample: SampleId, reason: str) -> None:
        if (pending := self.pending(sample)) is not None:
            self._write_off(pending.answer, reason)

    def forget(self, sample: SampleId) -> int:
        """It waits no longer; returns the bytes that were sent for it."""
        self._quota.discard(sample)
        self._at_hand.forget(sample)
        return self._sender.discard(sample)

    def _write_off(self, answer: Answer, reason: str) -> None:
        given_up = self._given_up(answer, reason)
        self._journal.record(GivenUp(given_up))
        self._on_final(given_up)

    def _dropped(self, dropped: Sequence[Pending]) -> None:
        """A full disk did not take these: the edge's answers stand, nothing is retried."""
        for pending in dropped:
            if pending.id in self._sender:
                self._on_final(self._given_up(pending.answer, "disk_full"))

    def _given_up(self, answer: Answer, reason: str) -> Answer:
        self._counters.add(f"given_up_{reason}")
        return replace(answer, final=True, given_up=reason, uplink_bytes=self.forget(answer.id))
