"""What a candidate shows beside the active model: counts, latency, and pairs by the cloud. Pure.

A pair is a sample that both models saw and the cloud answered. The cloud may answer before the
candidate has run, or long after; what waits for the other half is bounded, the oldest goes out.
"""

from bisect import bisect_left
from collections import OrderedDict
from typing import TypeVar

from shared.fleet.telemetry import LATENCY_BINS, LATENCY_EDGES_MS, Shadow
from shared.ids import SampleId

WAITING_MAX = 2000
"""Samples that wait for the cloud, and as many answers that wait for the candidate."""

T = TypeVar("T")


class ShadowTally:
    """Of one run in shadow. It goes on counting pairs when the run is over."""

    def __init__(self, version: str, started: int) -> None:
        """`started`: number of this run in this life of the agent."""
        self._version, self._started = version, started
        self._samples = self._agreed = self._failed = 0
        self._latency = [0] * LATENCY_BINS
        self._pairs = {(candidate, active): 0 for candidate in (0, 1) for active in (0, 1)}
        self._labels: OrderedDict[SampleId, tuple[int, int]] = OrderedDict()
        self._cloud: OrderedDict[SampleId, int] = OrderedDict()

    def ran(
        self, sample: SampleId, label: int | None, active_label: int, latency_ms: float
    ) -> None:
        """The candidate's label; None: it raised, or its answer was not finite."""
        self._samples += 1
        if label is None:
            self._failed += 1
            return
        self._agreed += label == active_label
        self._latency[bisect_left(LATENCY_EDGES_MS, latency_ms)] += 1
        if (cloud := self._cloud.pop(sample, None)) is not None:
            self._pair(label, active_label, cloud)
        else:
            _keep(self._labels, sample, (label, active_label))

    def cloud_said(self, sample: SampleId, label: int) -> None:
        """Its label for a sample; a second copy finds nothing that waits for it."""
        if (labels := self._labels.pop(sample, None)) is not None:
            self._pair(*labels, label)
        else:
            _keep(self._cloud, sample, label)

    def _pair(self, label: int, active_label: int, cloud: int) -> None:
        self._pairs[label == cloud, active_label == cloud] += 1

    def shadow(self) -> Shadow:
        """Cumulative; as a report has it."""
        return Shadow(
            version=self._version, started=self._started, samples=self._samples,
            agreed=self._agreed, failed=self._failed, latency=tuple(self._latency),
            both_right=self._pairs[1, 1], only_candidate_right=self._pairs[1, 0],
            only_active_right=self._pairs[0, 1], both_wrong=self._pairs[0, 0],
        )  # fmt: skip


def _keep(waiting: OrderedDict[SampleId, T], sample: SampleId, value: T) -> None:
    waiting[sample] = value
    if len(waiting) > WAITING_MAX:
        waiting.popitem(last=False)
