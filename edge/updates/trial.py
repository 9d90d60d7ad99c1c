"""What a run in the shadow of the active model shows, and whether that is enough. Pure.

The candidate is held against the active model on samples that this is sure of. Where it is unsure,
or what the device sees is novel, another answer is what a new version is for: the cloud's answers
and the fleet's evidence judge those.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Literal

_P95_SAMPLES_MIN = 20  # fewer have no 95th percentile
_LATENCIES_MAX = 1000  # of the newest samples
_SIGMAS = 4.0  # beyond chance, however often one looks: a candidate may be staged for weeks
_CPU_KEPT = 0.5  # of the budget, for samples that the cloud will answer


@dataclass(frozen=True, slots=True)
class Terms:
    """When a trial ends, and what it must show."""

    samples: int
    samples_min: int
    s_max: float
    agreement_min: float
    p95_ms_max: float
    few_samples: Literal["accept", "reject"]


@dataclass(slots=True)
class Tally:
    """Counts so far, and the newest latencies."""

    ran: int = 0
    compared: int = 0  # of those, the active model was sure of its answer
    agreed: int = 0  # of the compared
    not_finite: int = 0
    failed: int = 0
    slow: int = 0  # over the bound of the 95th percentile
    skipped: int = 0  # over the CPU budget, or the queue was full
    latencies_ms: deque[float] = field(default_factory=lambda: deque(maxlen=_LATENCIES_MAX))

    def add(
        self, *, agrees: bool, finite: bool, latency_ms: float, slow: bool = False,
        sure: bool = True,
    ) -> None:  # fmt: skip
        """`sure`: the active model was, so that its answer is worth a comparison."""
        self.ran += 1
        self.compared += sure
        self.agreed += agrees and sure
        self.not_finite += not finite
        self.slow += slow
        self.latencies_ms.append(latency_ms)

    @property
    def agreement(self) -> float:
        return self.agreed / self.compared if self.compared else 1.0

    @property
    def p95_ms(self) -> float | None:
        if len(self.latencies_ms) < _P95_SAMPLES_MIN:
            return None
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, round(0.95 * len(ordered)))]

    def __str__(self) -> str:
        p95 = "" if self.p95_ms is None else f", p95 {self.p95_ms:.3g} ms"
        alike = f"{self.agreement:.1%} as the active model of the {self.compared} it was sure of"
        return f"{self.ran} live samples, {alike}{p95}, {self.skipped} skipped"


@dataclass(frozen=True, slots=True)
class Verdict:
    accepted: bool
    why: str


def judge(terms: Terms, tally: Tally, elapsed_s: float) -> Verdict | None:
    """None while the trial goes on."""
    if (broken := _broken(tally)) is not None:
        return broken
    done = tally.ran >= terms.samples
    if not done and elapsed_s < terms.s_max:
        return None
    if tally.ran < terms.samples_min:
        few = f"only {tally.ran} live samples in {elapsed_s:.0f} s (at least {terms.samples_min})"
        if terms.few_samples == "reject":
            return Verdict(accepted=False, why=f"{few}; few_samples says reject")
        return Verdict(accepted=True, why=f"{few}; accepted on the golden samples alone")
    if tally.compared >= terms.samples_min and tally.agreement < terms.agreement_min:
        return Verdict(
            accepted=False, why=f"agrees too little: {tally} (at least {terms.agreement_min:.1%})"
        )
    if tally.p95_ms is not None and tally.p95_ms > terms.p95_ms_max:
        return Verdict(
            accepted=False,
            why=f"too slow on live samples: {tally} (at most {terms.p95_ms_max:g} ms)",
        )
    return Verdict(accepted=True, why=str(tally))


def judge_staged(terms: Terms, tally: Tally) -> Verdict | None:
    """None, or a rejection: a candidate that waits for the fleet is judged by the fleet, unless it
    is bad beyond chance. Constant time: it is asked after each sample.
    """
    if (broken := _broken(tally)) is not None:
        return broken
    if tally.ran < terms.samples_min:
        return None
    lowest = terms.agreement_min - _noise(terms.agreement_min, max(tally.compared, 1))
    if tally.compared >= terms.samples_min and tally.agreement < lowest:
        return Verdict(
            accepted=False,
            why=f"agrees far too little: {tally} (at least {terms.agreement_min:.1%})",
        )
    if tally.slow > tally.ran * (0.05 + _noise(0.05, tally.ran)):
        return Verdict(
            accepted=False,
            why=f"too slow on live samples: {tally.slow} of {tally.ran} took over "
            f"{terms.p95_ms_max:g} ms; one in twenty may",
        )
    return None


def _noise(share: float, samples: int) -> float:
    return _SIGMAS * math.sqrt(share * (1 - share) / samples)


def _broken(tally: Tally) -> Verdict | None:
    if tally.not_finite:
        return Verdict(accepted=False, why="answered a live sample with NaN or infinity")
    if tally.failed:
        return Verdict(accepted=False, why="raised an error over a live sample")
    return None


class CpuBudget:
    """A share of one core: a bucket of seconds that may go into debt by one run."""

    def __init__(self, share: float, burst_s: float = 1.0) -> None:
        """`share` in 0..1, of one core; `burst_s` is seconds of computing at once."""
        self._share, self._capacity = share, share * burst_s
        self._left, self._at = self._capacity, float("-inf")

    def allows(self, now: float, *, first: bool = True) -> bool:
        """Half of it is kept for samples that go `first`."""
        if now > self._at:
            self._left = min(self._capacity, self._left + (now - self._at) * self._share)
            self._at = now
        return self._left > (0.0 if first else self._capacity * _CPU_KEPT)

    def spend(self, busy_s: float) -> None:
        self._left -= busy_s


def latency_fault(
    candidate_ms: float, active_ms: float | None, ms_max: float, slower_max: float
) -> str | None:
    """Why a probed latency is too much; None when it is not. Medians of single samples in ms, both
    measured in turn on this machine.
    """
    if not candidate_ms <= ms_max:
        return f"takes {candidate_ms:.3g} ms here, at most {ms_max:g} are allowed"
    if active_ms is not None and not candidate_ms <= active_ms * slower_max:
        return (
            f"takes {candidate_ms:.3g} ms here, {candidate_ms / max(active_ms, 1e-9):.1f} times the "
            f"active model's {active_ms:.3g} ms; at most {slower_max:g} times are allowed"
        )
    return None
