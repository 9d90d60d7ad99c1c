"""Evidence to verdicts. Pure; the mathematics is in `sequential.py`.

violated  it is over the bound, and not by chance: at level risk / number of criteria, at any time
holds     there are enough samples, and it is within the bound, or over it by less than its own
          standard error; a loss of accuracy must besides be shown to be under `worse`
open      over the bound by more, and not sure yet; or not enough samples
no data   nothing was counted for it
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Final, Literal

from cloud.rollouts import quantiles, sequential
from cloud.rollouts.arms import Evidence, Level
from cloud.rollouts.criteria import Criterion
from cloud.rollouts.documents import CriterionView, Phase, RolloutSpec
from cloud.rollouts.meter import AUDITED, DISAGREED, ESCALATED, FAILED, SAMPLES
from cloud.rollouts.stages import FAILED as FAILED_PHASES

TRIALS_MIN: Final = 30
"""Before a rate says anything good."""
Verdict = Literal["holds", "violated", "open", "no data"]


@dataclass(frozen=True, slots=True)
class Figures:
    """What a criterion is judged by, besides the evidence."""

    spec: RolloutSpec
    phases: Mapping[Phase, int]
    """Devices of the rollout by phase."""
    control_silent: int = 0
    control_heard: int = 0


def judge(one: Criterion, evidence: Evidence, figures: Figures) -> CriterionView:
    alpha = figures.spec.risk / max(1, len(figures.spec.criteria))
    match one.name:
        case "install_failures" | "golden_failures":
            return _devices(one, evidence, figures, alpha)
        case "silent":
            return _silent(one, figures, alpha)
        case "inference_failures":
            counts = evidence.cohort
            return _level(one, evidence.failures, counts[FAILED], counts[SAMPLES], evidence, alpha)
        case "escalation_rate":
            counts = evidence.cohort
            level = evidence.escalation
            return _level(one, level, counts[ESCALATED], counts[SAMPLES], evidence, alpha)
        case "disagreement":
            counts = evidence.cohort
            level = evidence.disagreement
            return _level(one, level, counts[DISAGREED], counts[AUDITED], evidence, alpha)
        case "p95_latency_ms":
            return quantiles.p95(one, evidence.latency, alpha)
        case "confidence_shift":
            return quantiles.shift(one, evidence.confidence, alpha)
        case "agreement":
            return _agreement(one, evidence, alpha)
        case _:
            return _accuracy_loss(one, evidence, figures.spec, alpha)


def _devices(one: Criterion, evidence: Evidence, figures: Figures, alpha: float) -> CriterionView:
    """Failures, of the devices whose install came to an end. A share of all, not of a sample of
    them, opens nothing while it is over the bound, however few they are.
    """
    phases = figures.phases
    bad = sum(phases.get(phase, 0) for phase in FAILED_PHASES if phase is not Phase.SILENT)
    ended = bad + sum(phases.get(phase, 0) for phase in (Phase.COMMITTED, Phase.DONE, Phase.SILENT))
    ended += phases.get(Phase.STAGED, 0)
    if one.name == "golden_failures":
        bad = evidence.golden
    interval = sequential.rate(bad, ended, alpha)
    verdict: Verdict = "no data"
    if ended:
        verdict = "holds" if bad <= one.number * ended else "open"
        if sequential.rate_exceeds(bad, ended, one.number, alpha):
            verdict = "violated"
    return CriterionView(
        text=one.text, verdict=verdict, samples=ended,
        cohort=bad / ended if ended else None, cohort_low=interval.low, cohort_high=interval.high,
        words=f"{bad} of {ended} devices",
    )  # fmt: skip


def _silent(one: Criterion, figures: Figures, alpha: float) -> CriterionView:
    """What takes devices that were not touched off the air, too, is no fault of the version."""
    phases = figures.phases
    bad = phases.get(Phase.SILENT, 0)
    there = bad + phases.get(Phase.COMMITTED, 0) + phases.get(Phase.DONE, 0)
    interval = sequential.rate(bad, there, alpha)
    quiet, heard = figures.control_silent, figures.control_heard
    control = quiet / heard if heard else None
    bound = one.bound(control or 0.0) or 0.0
    verdict: Verdict = "no data"
    if there:
        verdict = "holds" if bad <= bound * there else "open"
        as_well = sequential.rate(quiet, heard, 0.05).high if quiet else 0.0
        if sequential.rate_exceeds(bad, there, max(bound, as_well), alpha):
            verdict = "violated"
    return CriterionView(
        text=one.text, verdict=verdict, samples=there, control_samples=heard,
        cohort=bad / there if there else None, cohort_low=interval.low, cohort_high=interval.high,
        control=control,
        words=f"{bad} of {there} devices on it are silent; of the others {quiet} of {heard}",
    )  # fmt: skip


def _level(
    one: Criterion, level: Level, hits: int, trials: int, evidence: Evidence, alpha: float
) -> CriterionView:
    if not trials:
        return CriterionView(text=one.text, verdict="no data", words="no samples yet")
    observed = hits / trials
    interval = sequential.rate(hits, trials, alpha)
    control = compare(level, evidence, alpha)
    seen = {
        "text": one.text, "cohort": observed, "cohort_low": interval.low,
        "cohort_high": interval.high, "samples": trials,
    }  # fmt: skip
    if control is not None:
        seen |= {
            "control": control.expected, "control_samples": control.trials,
            "control_low": max(0.0, control.expected - control.error),
            "control_high": min(1.0, control.expected + control.error),
        }  # fmt: skip
    if not one.relative:
        sure = sequential.rate_exceeds(hits, trials, one.number, alpha)
        room = sqrt(max(observed * (1 - observed), 1 / trials) / trials)
        fine = observed - room <= one.number
        return _viewed(seen, sure=sure, fine=fine, enough=trials >= TRIALS_MIN)
    if control is None:
        return CriterionView.model_validate(
            seen | {"verdict": "no data", "words": "no control to compare with"}
        )
    margin = (one.bound(control.expected) or 0.0) - control.expected
    words = (
        f"{observed:.4f}, of the same devices expected {control.expected:.4f}; difference "
        f"{control.difference:+.4f} (surely over {control.difference - control.radius:+.4f})"
    )
    return _viewed(
        seen | {"words": words},
        sure=control.difference - control.radius > margin,
        fine=control.difference - control.deviation <= margin,
        enough=trials >= TRIALS_MIN,
    )


def _viewed(seen: Mapping[str, object], *, sure: bool, fine: bool, enough: bool) -> CriterionView:
    verdict: Verdict = "violated" if sure else "holds" if fine and enough else "open"
    return CriterionView.model_validate({**seen, "verdict": verdict})


@dataclass(frozen=True, slots=True)
class Compared:
    expected: float
    """The cohort's rate, had its devices stayed: own history, moved as the others moved."""
    error: float
    """Standard deviation of that."""
    difference: float
    """The cohort's rate less the expected one."""
    deviation: float
    """Standard deviation of the difference."""
    radius: float
    """The difference is truly over `difference - radius`, at every look."""
    trials: int


def compare(level: Level, evidence: Evidence, alpha: float) -> Compared | None:
    """Difference in differences; None without anything to compare with."""
    control = evidence.control
    pool, pool_hits = level.of(control)
    matched, others = level.matched, level.others
    if pool < TRIALS_MIN:
        others = 0  # nobody to set them against
    trials = matched + others
    if not trials:
        return None
    hits = level.matched_hits + (level.others_hits if others else 0)
    pooled = pool_hits / pool if pool else 0.0
    drift, spread = level.drift, level.spread
    moved = drift.mean if drift.devices >= 3 else 0.0
    expected = min(1.0, max(0.0, (level.expected + others * pooled) / trials + moved))
    variance = level.error + level.squares * drift.between
    if drift.devices >= 3:
        variance += trials * trials * drift.mean_variance
    if others:
        variance += level.others_squares * (spread.between + drift.between)
        variance += others * others * (spread.mean_variance + (pool_hits + 0.5) / (pool + 1) ** 2)
    rate = max(hits / trials, expected, 1 / trials)
    total = variance + trials * rate * (1 - min(rate, 1.0))
    difference = hits / trials - expected
    return Compared(
        expected=expected,
        error=sqrt(variance) / trials,
        difference=difference,
        deviation=sqrt(total) / trials,
        radius=sequential.radius(total, alpha) / trials,
        trials=pool,
    )


def _agreement(one: Criterion, evidence: Evidence, alpha: float) -> CriterionView:
    sums = evidence.shadow
    if not sums.samples:
        return CriterionView(text=one.text, verdict="no data", words="no samples in shadow yet")
    apart = sums.samples - sums.agreed
    interval = sequential.rate(sums.agreed, sums.samples, alpha)
    share = sums.agreed / sums.samples
    room = sqrt(max(share * (1 - share), 1 / sums.samples) / sums.samples)
    return _viewed(
        {
            "text": one.text, "cohort": share, "cohort_low": interval.low,
            "cohort_high": interval.high, "samples": sums.samples,
            "words": f"{apart} of {sums.samples} samples with another label",
        },
        sure=sequential.rate_exceeds(apart, sums.samples, 1 - one.number, alpha),
        fine=share + room >= one.number, enough=sums.samples >= TRIALS_MIN,
    )  # fmt: skip


def _accuracy_loss(
    one: Criterion, evidence: Evidence, spec: RolloutSpec, alpha: float
) -> CriterionView:
    sums = evidence.shadow
    if not sums.pairs:
        return CriterionView(
            text=one.text, verdict="no data",
            words="the cloud has answered no sample that both versions saw",
        )  # fmt: skip
    wins, losses = sums.only_candidate_right, sums.only_active_right
    ties = sums.pairs - wins - losses
    interval = sequential.loss(wins, losses, ties, alpha)
    mean = (losses - wins) / sums.pairs
    room = sqrt(max(wins + losses, 1)) / sums.pairs
    worse = max(spec.worse, one.number)
    excluded = sequential.loss_exceeds(losses, wins, ties, -worse, spec.miss_risk)
    words = (
        f"of {sums.pairs} answered samples {losses} only the active version had right, "
        f"{wins} only the candidate"
    )
    sure = sequential.loss_exceeds(wins, losses, ties, one.number, alpha)
    if not (excluded or sure):
        words += f"; a loss of {worse:g} is not excluded yet"
    return _viewed(
        {
            "text": one.text, "cohort": mean, "cohort_low": interval.low,
            "cohort_high": interval.high, "samples": sums.pairs, "words": words,
        },
        sure=sure,
        fine=mean - room <= one.number, enough=excluded,
    )  # fmt: skip
