"""Which sample is published next, and when one is published again. Pure.

Every sample is in one place: ready (fresh or backlog), delayed, or out (published, unanswered).
Fresh samples, whose full deadline is still ahead, come before the backlog; in each the least
confident come first, and audits last, in the order they came, so that a binding budget spends
itself where the cloud helps most. Whoever is out past the answer timeout, or was refused for now,
is delayed with full jitter (Brooker 2015, "Exponential Backoff And Jitter").
"""

from dataclasses import dataclass
from typing import Literal

from edge.journal.rows import Waiting
from edge.uplink.budget import Bucket
from edge.uplink.ranked import Ranked
from shared.backoff import Jitter
from shared.ids import SampleId

NO_SUBSCRIBER = 0x10
NEVER = frozenset({0x87, 0x99})  # not authorized; payload format invalid
_ERROR = 0x80
_DOUBLINGS_MAX = 20


@dataclass(frozen=True, slots=True)
class Limits:
    unanswered_max: int
    answer_timeout_s: float
    backoff_s_min: float
    backoff_s_max: float
    samples_per_s: float | None = None
    bytes_per_s: float | None = None
    burst_s: float = 2.0


@dataclass(slots=True)
class _Entry:
    row: Waiting
    fresh_until: float
    attempts: int = 0
    bytes_sent: int = 0
    hurried: bool = False  # the last time it was sent, its full deadline was ahead


class Sender:
    def __init__(self, limits: Limits, rng: Jitter, now: float) -> None:
        self._limits, self._rng = limits, rng
        self._samples = Bucket(limits.samples_per_s, limits.burst_s, now)
        self._bytes = Bucket(limits.bytes_per_s, limits.burst_s, now)
        self._entries: dict[SampleId, _Entry] = {}
        self._fresh, self._backlog = Ranked[SampleId](), Ranked[SampleId]()
        self._delayed, self._out = Ranked[SampleId](), Ranked[SampleId]()  # ranked by due time
        self._unserved = 0  # how often in a row nobody subscribed
        self._held_until = now
        self._probe: SampleId | None = None

    def __contains__(self, sample: SampleId) -> bool:
        return sample in self._entries

    def retune(self, limits: Limits, now: float) -> None:
        """Other limits from now on; what was spent stays spent."""
        self._limits = limits
        self._samples.retune(limits.samples_per_s, limits.burst_s, now)
        self._bytes.retune(limits.bytes_per_s, limits.burst_s, now)

    @property
    def unanswered(self) -> int:
        return len(self._out)

    @property
    def served(self) -> bool:
        """False while the broker says that no cloud worker listens."""
        return self._unserved == 0

    def add(self, row: Waiting, fresh_until: float) -> None:
        self._entries[row.id] = _Entry(row, fresh_until)
        self._rank(row.id, self._fresh)

    def discard(self, sample: SampleId) -> int:
        """Forget a sample; returns the bytes that were sent for it."""
        entry = self._entries.pop(sample)
        for place in (self._fresh, self._backlog, self._delayed, self._out):
            place.discard(sample)
        if self._probe == sample:
            self._probe = None
        return entry.bytes_sent

    def next(self, now: float) -> SampleId | None:
        """Whom to publish now, window permitting; say `sent` before asking again."""
        self._wake(now)
        first = self._first(now)
        return first if first is not None and self._open_at(now) <= now else None

    def due_at(self, now: float) -> float | None:
        """When `next` may have somebody, events aside; None when only an event can help."""
        self._wake(now)
        times = [first[1][0] for place in (self._delayed, self._out) if (first := place.first())]
        if self._first(now) is not None and (opens := self._open_at(now)) != float("inf"):
            times.append(opens)
        return min(times, default=None)

    def fresh(self, sample: SampleId, now: float) -> bool:
        return self._entries[sample].fresh_until > now

    def hurried(self, sample: SampleId) -> bool:
        """Whether it was fresh when it was last sent."""
        return self._entries[sample].hurried

    def sent(self, sample: SampleId, size: int, now: float) -> None:
        entry = self._entries[sample]
        entry.attempts += 1
        entry.hurried = entry.fresh_until > now
        entry.bytes_sent += size
        self._samples.spend(1, now)
        self._bytes.spend(size, now)
        self._fresh.discard(sample)
        self._backlog.discard(sample)
        self._out.add(sample, now + self._limits.answer_timeout_s)
        if self._unserved:
            self._probe = sample

    def acknowledged(
        self, sample: SampleId, reason: int, now: float
    ) -> Literal["broker_refused"] | None:
        """PUBACK came with this reason code; returns why to give the sample up, or None."""
        if reason != NO_SUBSCRIBER:
            self._unserved, self._probe = 0, None
        if sample not in self._out:
            return None  # answered, or given up, before its PUBACK
        if reason in NEVER:
            return "broker_refused"
        if reason >= _ERROR:
            self.delay(sample, self._jitter(self._entries[sample].attempts), now)
        elif reason == NO_SUBSCRIBER:
            self._hold(now)
            self.unsent(sample)
        return None

    def unsent(self, sample: SampleId) -> None:
        """Its publish never reached the broker, or nobody was there for it."""
        if sample in self._out:
            self._out.discard(sample)
            self._rank(sample, self._fresh)
        if self._probe == sample:
            self._probe = None

    def delay(self, sample: SampleId, delay_s: float, now: float) -> None:
        """Send a sample again, not before `delay_s`, and without hurry from now on."""
        entry = self._entries[sample]
        entry.fresh_until = min(entry.fresh_until, now)
        for place in (self._fresh, self._backlog, self._out):
            place.discard(sample)
        self._delayed.add(sample, now + delay_s)

    def connected(self, *, session_kept: bool, now: float) -> None:
        """Without our session the broker has forgotten the answers it held for us: ask again."""
        self._unserved, self._probe, self._held_until = 0, None, now
        if not session_kept:
            for sample in list(self._out):
                self.unsent(sample)

    def _wake(self, now: float) -> None:
        while (first := self._out.first()) is not None and first[1][0] <= now:
            self.delay(first[0], self._jitter(self._entries[first[0]].attempts), now)
        while (first := self._delayed.first()) is not None and first[1][0] <= now:
            self._delayed.discard(first[0])
            self._rank(first[0], self._backlog)

    def _first(self, now: float) -> SampleId | None:
        while (first := self._fresh.first()) is not None:
            if self.fresh(first[0], now):
                return first[0]
            self._fresh.discard(first[0])
            self._rank(first[0], self._backlog)
        first = self._backlog.first()
        return None if first is None else first[0]

    def _open_at(self, now: float) -> float:
        if len(self._out) >= self._limits.unanswered_max or self._probe is not None:
            return float("inf")
        return max(self._samples.ready_at(now), self._bytes.ready_at(now), self._held_until)

    def _rank(self, sample: SampleId, place: Ranked[SampleId]) -> None:
        row = self._entries[sample].row
        place.add(sample, row.audit, 0.0 if row.audit else row.confidence)

    def _hold(self, now: float) -> None:
        if now >= self._held_until:  # one window's worth of bad news counts once
            self._unserved += 1
            self._held_until = now + self._limits.backoff_s_min + self._jitter(self._unserved)

    def _jitter(self, attempts: int) -> float:
        longest = self._limits.backoff_s_min * 2 ** min(attempts, _DOUBLINGS_MAX)
        return self._rng.uniform(0, min(longest, self._limits.backoff_s_max))
