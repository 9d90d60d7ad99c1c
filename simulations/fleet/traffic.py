"""What every device's samples came to, drawn by the telemetry interval and not one by one.

Counts are exact multinomial draws, so sums over a fleet are as if each sample had been simulated.
Devices differ: rate, hard share, error rates and latency are drawn once per device (beta and
lognormal), which is what breaks "independent, identically distributed" in a real fleet.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from shared.fleet.telemetry import CONFIDENCE_BINS, LATENCY_BINS, LATENCY_EDGES_MS
from simulations.fleet import seeds
from simulations.fleet.models import Traits

CLASSES = 4
THRESHOLD_BIN = 7
"""Samples in bins below this one (confidence under 0.7) are hard, and escalated."""
_HARD_SHAPE = np.array([0.02, 0.03, 0.06, 0.09, 0.15, 0.25, 0.40])
_EASY_SHAPE = np.array([0.08, 0.17, 0.75])
_LATENCY_SIGMA = 0.35
COUNTS = (
    "samples", "escalated", "audited", "answered", "disagreed", "audit_answered", "audit_disagreed",
    "failed",
)  # fmt: skip
PAIRS = ("both_right", "only_candidate_right", "only_active_right", "both_wrong")


@dataclass(frozen=True, slots=True)
class Population:
    """How devices differ: means, and concentrations of the beta distributions around them."""

    samples_per_s: float = 0.2
    hard_share: float = 0.10
    hard_spread: float = 60.0
    easy_error: float = 0.03
    easy_spread: float = 150.0
    hard_error: float = 0.30
    hard_error_spread: float = 40.0
    latency_ms: float = 4.0
    latency_sigma: float = 0.3
    answered: float = 0.97
    """Share of what was sent to the cloud that came back."""
    audit_share: float = 0.01
    """Where the desired state names none."""


class Traffic:
    """Arrays with a row a device. Counters are of the present tally and of the present shadow run."""

    def __init__(self, seed: int, devices: int, traits: Sequence[Traits], who: Population) -> None:
        self._rng = seeds.generator(seed, "traffic")
        draw = seeds.generator(seed, "population")
        self.traits, self._who = tuple(traits), who
        self._rate = who.samples_per_s * draw.lognormal(0.0, 0.4, devices)
        self._hard = _beta(draw, who.hard_share, who.hard_spread, devices)
        self._easy_error = _beta(draw, who.easy_error, who.easy_spread, devices)
        self._hard_error = _beta(draw, who.hard_error, who.hard_error_spread, devices)
        self._latency = np.log(who.latency_ms) + who.latency_sigma * draw.standard_normal(devices)
        self._classes = draw.dirichlet(np.full(CLASSES, 8.0), devices)
        self.model = np.zeros(devices, np.int64)
        """Index into `traits` of what answers."""
        self.audit = np.full(devices, who.audit_share)
        self.quiet = np.zeros(devices, bool)
        self.slowed = np.ones(devices)
        """Times its latency: bad hardware."""
        self._since = np.zeros(devices)
        self._shadow_since = np.full(devices, np.inf)
        self.counts = np.zeros((devices, len(COUNTS)), np.int64)
        self.latency = np.zeros((devices, LATENCY_BINS), np.int64)
        self.confidence = np.zeros((devices, CLASSES * CONFIDENCE_BINS), np.int64)
        self.candidate = np.full(devices, -1, np.int64)
        self.shadow = np.zeros((devices, 3), np.int64)  # samples, agreed, failed
        self.shadow_latency = np.zeros((devices, LATENCY_BINS), np.int64)
        self.pairs = np.zeros((devices, len(PAIRS)), np.int64)
        self.done = np.zeros((devices, len(self.traits)), np.int64)
        """Samples that each version really answered on each device, over all tallies."""
        self.failed = np.zeros_like(self.done)
        """Inferences that failed, likewise; they are not among the samples."""
        self.compared = np.zeros(devices, np.int64)
        """Samples that really were seen by both versions, over all shadow runs."""
        self.truth = np.zeros((len(self.traits), 4))
        """By version: samples, wrong after the cloud's word, escalated and audited, latency sum in ms."""

    def begin(self, who: int, now: float) -> None:
        """It runs from now on, with counters at zero: a new life, or a swap."""
        self._since[who] = now
        for table in (self.counts, self.latency, self.confidence):
            table[who] = 0
        self.end_shadow(who)

    def begin_shadow(self, who: int, candidate: int, now: float) -> None:
        self.end_shadow(who)
        self.candidate[who] = candidate
        self._shadow_since[who] = now

    def end_shadow(self, who: int) -> None:
        if self.candidate[who] < 0:
            return
        self.candidate[who] = -1
        self._shadow_since[who] = np.inf
        for table in (self.shadow, self.shadow_latency, self.pairs):
            table[who] = 0

    def stop(self, who: int) -> None:
        """It does nothing until `begin`. What it did since its last report nobody will hear of."""
        self._since[who] = np.inf

    def run_to(self, who: np.ndarray, now: float) -> None:
        """Draw what the devices at `who` (distinct indices) did up to `now` (Unix seconds)."""
        model = self.model[who]
        for index in np.unique(model):
            self._run(who[model == index], int(index), now)
        self._since[who] = np.where(np.isinf(self._since[who]), np.inf, now)

    def _run(self, who: np.ndarray, index: int, now: float) -> None:
        rng, traits = self._rng, self.traits[index]
        elapsed = np.maximum(now - self._since[who], 0.0)
        samples = rng.poisson(np.where(self.quiet[who], 0.0, self._rate[who] * elapsed))
        hard = np.minimum(self._hard[who] * traits.hard_share, 0.95)
        bins = np.concatenate(
            [hard[:, None] * _HARD_SHAPE, (1 - hard)[:, None] * _EASY_SHAPE], axis=1
        )
        table = self._classes[who][:, :, None] * bins[:, None, :]
        confidence = rng.multinomial(samples, _shares(table.reshape(len(who), -1)))
        by_bin = confidence.reshape(len(who), CLASSES, CONFIDENCE_BINS).sum(axis=1)
        escalated = by_bin[:, :THRESHOLD_BIN].sum(axis=1)
        audited = rng.binomial(samples - escalated, self.audit[who])
        hard_answered = rng.binomial(escalated, self._who.answered)
        audit_answered = rng.binomial(audited, self._who.answered)
        easy_error = np.clip(self._easy_error[who] + traits.easy_error, 0.0, 1.0)
        hard_error = np.clip(self._hard_error[who] + traits.hard_error, 0.0, 1.0)
        audit_wrong = rng.binomial(audit_answered, easy_error)
        hard_wrong = rng.binomial(hard_answered, hard_error)
        latency = rng.multinomial(samples, self._latency_shares(who, traits))
        failed = rng.binomial(samples, traits.fails)
        drawn = (
            samples, escalated, audited, hard_answered + audit_answered, hard_wrong + audit_wrong,
            audit_answered, audit_wrong, failed,
        )  # fmt: skip
        self.counts[who] += np.stack(drawn, axis=1)
        self.latency[who] += latency
        self.confidence[who] += confidence
        self.done[who, index] += samples
        self.failed[who, index] += failed
        wrong = (samples - escalated - audited) * easy_error + (
            escalated - hard_answered
        ) * hard_error
        ms = np.exp(self._latency[who]) * self.slowed[who] * traits.slowness
        self.truth[index] += (
            samples.sum(), wrong.sum(), (escalated + audited).sum(), (ms * samples).sum()
        )  # fmt: skip
        compared = self.candidate[who] >= 0
        if compared.any():
            chosen = who[compared]
            self._compare(chosen, traits, now, self._rate[chosen] * ~self.quiet[chosen])

    def _compare(self, who: np.ndarray, active: Traits, now: float, rate: np.ndarray) -> None:
        """The candidate in shadow: a table of who was right, on the same samples."""
        rng = self._rng
        new = self.traits[int(self.candidate[who[0]])]
        elapsed = np.maximum(now - np.maximum(self._shadow_since[who], self._since[who]), 0.0)
        samples = rng.poisson(rate * elapsed)
        hard = rng.binomial(samples, np.minimum(self._hard[who] * active.hard_share, 0.95))
        easy = rng.binomial(samples - hard, self.audit[who])
        pairs = np.zeros((len(who), len(PAIRS)), np.int64)
        for seen, error, change in (
            (hard, self._hard_error[who] + active.hard_error, new.hard_error - active.hard_error),
            (easy, self._easy_error[who] + active.easy_error, new.easy_error - active.easy_error),
        ):
            answered = rng.binomial(seen, self._who.answered)
            pairs += rng.multinomial(answered, _pair_shares(error, change, new.churn))
        fails = max(new.fails, 1.0 if new.breaks == "nan" else 0.0)
        apart = min(2 * new.churn + abs(new.easy_error - active.easy_error) + fails, 1.0)
        failed = rng.binomial(samples, fails)
        self.shadow[who] += np.stack([samples, rng.binomial(samples, 1 - apart), failed], axis=1)
        self.shadow_latency[who] += rng.multinomial(samples, self._latency_shares(who, new))
        self.pairs[who] += pairs
        self.compared[who] += samples
        self._shadow_since[who] = now

    def _latency_shares(self, who: np.ndarray, traits: Traits) -> np.ndarray:
        """Lognormal around each device's own median: rows of shares of the histogram's bins."""
        middle = self._latency[who] + np.log(traits.slowness * self.slowed[who])
        z = (np.log(LATENCY_EDGES_MS)[None, :] - middle[:, None]) / _LATENCY_SIGMA
        below = 1.0 / (1.0 + np.exp(-1.702 * z))  # the logistic for the normal, within 0.01
        return _shares(np.diff(below, axis=1, prepend=0.0, append=1.0))


def _beta(rng: np.random.Generator, mean: float, concentration: float, count: int) -> np.ndarray:
    return rng.beta(mean * concentration, (1 - mean) * concentration, count)


def _shares(rows: np.ndarray) -> np.ndarray:
    """Rows that sum to one, as numpy's multinomial wants them."""
    rows = np.clip(rows, 0.0, 1.0)
    shares: np.ndarray = rows / rows.sum(axis=1, keepdims=True)
    return shares


def _pair_shares(error: np.ndarray, change: float, churn: float) -> np.ndarray:
    """By `PAIRS`: the active version errs with `error`, the candidate with `error + change`."""
    error = np.clip(error, 0.0, 1.0)
    new = np.clip(error + change, 0.0, 1.0)
    only_new = np.minimum(np.maximum(error - new, 0.0) + churn, error)
    only_old = np.clip(new - error + only_new, 0.0, 1.0 - error)
    return _shares(np.stack([1 - error - only_old, only_new, only_old, error - only_new], axis=1))
