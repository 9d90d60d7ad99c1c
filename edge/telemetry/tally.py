"""What one version did in this life of the agent. Pure, and cheap: `judged` runs for each sample.

Plain integers in flat lists: under a microsecond a sample, which benchmarks hold it to.
"""

from bisect import bisect_left

from edge.answers import Route
from edge.telemetry.strata import Strata
from shared.bundle.manifest import Manifest
from shared.fleet.telemetry import (
    CLASSES_MAX,
    CONFIDENCE_BINS,
    LATENCY_BINS,
    LATENCY_EDGES_MS,
    Tally,
)

_WIDTH = CONFIDENCE_BINS + 1  # a confidence of exactly 1 has a place of its own until it is shown


class VersionTally:
    __slots__ = (
        "_began", "_cells", "_edges", "_last_row", "_latency", "_manifest", "_raised", "_share",
        "_started", "_strata", "answered", "audit_answered", "audit_disagreed", "audited",
        "disagreed", "escalated", "failed", "novel", "samples",
    )  # fmt: skip

    def __init__(
        self, manifest: Manifest, began: float, started: int = 0, share: float = 0.0
    ) -> None:
        """`began`: its first moment by the agent's clock; `started`: its number in this life;
        `share`: of audits, at first.
        """
        self._share, self._strata = share, Strata(share)
        self._raised = self.novel = 0
        self._manifest, self._started, self._began = manifest, started, began
        rows = min(max(len(manifest.labels), 1), CLASSES_MAX)
        self._last_row = rows - 1
        self._cells = [0] * (rows * _WIDTH)
        self._latency = [0] * LATENCY_BINS
        self._edges = LATENCY_EDGES_MS
        self.samples = self.escalated = self.audited = self.failed = 0
        self.answered = self.disagreed = self.audit_answered = self.audit_disagreed = 0

    def next(self, manifest: Manifest, now: float, share: float = 0.0) -> "VersionTally":
        """Of the version that takes over."""
        return VersionTally(manifest, now, self._started + 1, share)

    def judged(
        self, label: int, confidence: float, route: Route, share: float, latency_ms: float
    ) -> None:
        """One answer of the edge; `confidence` in 0..1, `share` of audits that was in force for it,
        `latency_ms` since the sample arrived.
        """
        if share != self._share:
            self._share = share
            self._strata.change(share, self._confident, self.audited)
        self.samples += 1
        if route != "accepted":
            self._left(route)
        row = min(self._last_row, label)
        self._cells[row * _WIDTH + int(confidence * CONFIDENCE_BINS)] += 1
        self._latency[bisect_left(self._edges, latency_ms)] += 1

    def broke_down(self, route: Route, latency_ms: float) -> None:
        """An answer whose confidence was no number: it says nothing about confidence."""
        self.samples += 1
        self.failed += 1
        self._left(route)
        self._latency[bisect_left(self._edges, latency_ms)] += 1

    def raised(self) -> None:
        """The model raised over a sample, so that there is no answer and no latency."""
        self.samples += 1
        self.failed += 1
        self._raised += 1

    def _left(self, route: Route) -> None:
        if route == "audit":
            self.audited += 1
        elif route != "accepted":
            self.escalated += 1
            self.novel += route == "novel"

    @property
    def _confident(self) -> int:
        """Accepted and audited ones."""
        return self.samples - self.escalated - self._raised

    def cloud_said(
        self,
        version: str,
        arrived: float,
        *,
        audit: bool,
        edge_label: int,
        cloud_label: int,
        share: float = 1.0,
    ) -> bool:
        """The cloud's answer to a sample that this version was sure or unsure of; `share` of audits
        that an audit was drawn with.

        False, and counted nowhere, for one of another version, or of an earlier tally: `arrived`
        is when the sample came, by the agent's clock.
        """
        if version != self._manifest.version or arrived < self._began:
            return False
        differs = edge_label != cloud_label
        self.answered += 1
        self.disagreed += differs
        if audit:
            self.audit_answered += 1
            self.audit_disagreed += differs
            self._strata.answered(share, differs=differs)
        return True

    def document(self) -> Tally:
        return Tally(
            model=self._manifest.name, version=self._manifest.version, started=self._started,
            samples=self.samples, escalated=self.escalated, audited=self.audited,
            answered=self.answered, disagreed=self.disagreed, audit_answered=self.audit_answered,
            audit_disagreed=self.audit_disagreed, failed=self.failed, novel=self.novel,
            strata=self._strata.documents(self._confident, self.audited),
            latency=tuple(self._latency),
            confidence=tuple(
                self._row(first) for first in range(0, len(self._cells), _WIDTH)
            ),
        )  # fmt: skip

    def _row(self, first: int) -> tuple[int, ...]:
        cells = self._cells[first : first + _WIDTH]
        return (*cells[:-2], cells[-2] + cells[-1])
