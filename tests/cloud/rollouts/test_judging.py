"""Verdicts on evidence: devices that differ do not make a version look bad, and bad ones show."""

import numpy as np
import pytest

from cloud.rollouts.arms import Evidence, Histogram, Spread
from cloud.rollouts.criteria import parse
from cloud.rollouts.documents import Phase
from cloud.rollouts.judging import Figures, judge
from cloud.rollouts.meter import Meter
from shared.fleet.telemetry import LATENCY_BINS
from tests.cloud.rollouts.acting import spec

FIGURES = Figures(spec(), {})
RUNS, LOOKS, PER_LOOK = 40, 15, 60


def meter() -> Meter:
    return Meter("0" * 16, 0, 0, "1", (0,) * 5, 0.0)


def looked_at(
    seed: int, *, canary: int, others: int, worse: float = 0.0, history: int = 500,
    drift: float = 0.01, together: float = 0.0,
) -> list[str]:  # fmt: skip
    """Verdicts on escalation, at each look. Devices escalate 10 % on average, some 1 %, some 30 %;
    each changes by itself, and all of them `together`.
    """
    rng = np.random.default_rng([6, seed])
    evidence = Evidence()
    count = canary + others
    rates = rng.beta(2, 18, count)
    moves = rng.normal(together, drift, count)
    meters = [meter() for _ in range(count)]
    for one, rate in zip(meters, rates, strict=True):
        if history:
            hits = int(rng.binomial(history, rate))
            evidence.count_control(one, (history, hits, 0, 0, 0), live=False)
    found = []
    for _ in range(LOOKS):
        for i, one in enumerate(meters):
            rate = rates[i] + moves[i] + (worse if i < canary else 0.0)
            change = (PER_LOOK, int(rng.binomial(PER_LOOK, min(1.0, max(0.0, rate)))), 0, 0, 0)
            if i < canary:
                evidence.count_cohort(one, change)
            else:
                evidence.count_control(one, change, live=True)
        found.append(judge(parse("escalation_rate <= control"), evidence, FIGURES).verdict)
    return found


@pytest.mark.parametrize(
    "world",
    [
        {"canary": 3, "others": 27},
        {"canary": 1, "others": 29},
        {"canary": 3, "others": 27, "history": 0},
        {"canary": 3, "others": 27, "drift": 0.03},
        {"canary": 3, "others": 27, "together": 0.05},
    ],
    ids=["plain", "one device", "no history", "each drifts", "all drift"],
)
def test_devices_that_differ_and_drift_do_not_stop_a_good_version(world: dict):
    stopped = sum("violated" in looked_at(seed, **world) for seed in range(RUNS))
    assert stopped == 0  # at a risk of 0.01 / 9 each


@pytest.mark.parametrize(("canary", "worse"), [(3, 0.1), (1, 0.2)])
def test_a_worse_version_is_seen_all_the_same(canary: int, worse: float):
    runs = [looked_at(seed, canary=canary, others=27, worse=worse) for seed in range(RUNS)]
    assert sum("violated" in one for one in runs) >= 0.9 * RUNS


def test_few_samples_say_nothing_good():
    evidence = Evidence()
    one = meter()
    evidence.count_control(one, (1000, 100, 0, 0, 0), live=False)
    evidence.count_cohort(one, (10, 1, 0, 0, 0))
    assert judge(parse("escalation_rate <= control"), evidence, FIGURES).verdict == "open"
    evidence.count_cohort(one, (90, 9, 0, 0, 0))
    assert judge(parse("escalation_rate <= control"), evidence, FIGURES).verdict == "holds"


def test_over_the_bound_by_chance_is_open_and_not_violated():
    evidence = Evidence()
    one = meter()
    evidence.count_control(one, (1000, 100, 0, 0, 0), live=False)
    evidence.count_cohort(one, (100, 18, 0, 0, 0))
    assert judge(parse("escalation_rate <= control"), evidence, FIGURES).verdict == "open"


@pytest.mark.parametrize("name", ["escalation_rate", "disagreement", "inference_failures"])
def test_without_samples_and_without_a_control_there_is_no_data(name: str):
    evidence = Evidence()
    assert judge(parse(f"{name} <= control"), evidence, FIGURES).verdict == "no data"
    evidence.count_cohort(meter(), (100, 10, 50, 5, 1))
    view = judge(parse(f"{name} <= control"), evidence, FIGURES)
    assert view.verdict == "no data"
    assert "no control" in view.words
    assert judge(parse(f"{name} <= 0.9"), evidence, FIGURES).verdict == "holds"


@pytest.mark.parametrize(
    ("bad", "ended", "verdict"),
    [(0, 1, "holds"), (1, 1, "open"), (2, 2, "violated"), (1, 100, "holds"), (30, 100, "violated")],
)
def test_a_share_of_devices_opens_nothing_over_its_bound_and_stops_when_it_is_sure(
    bad: int, ended: int, verdict: str
):
    figures = Figures(spec(), {Phase.FAILED: bad, Phase.DONE: ended - bad})
    assert judge(parse("install_failures <= 0.02"), Evidence(), figures).verdict == verdict


def test_one_failure_where_none_is_allowed_is_enough():
    evidence = Evidence(golden=1)
    figures = Figures(spec(), {Phase.REJECTED: 1, Phase.DONE: 1000})
    assert judge(parse("golden_failures <= 0"), evidence, figures).verdict == "violated"


def test_a_loss_is_not_let_through_before_it_is_excluded():
    text = parse("accuracy_loss <= 0.005")
    evidence = Evidence()
    assert judge(text, evidence, FIGURES).verdict == "no data"
    shadow = evidence.shadow
    shadow.only_candidate_right = shadow.only_active_right = 3
    shadow.both_right = 94
    view = judge(text, evidence, FIGURES)
    assert view.verdict == "open"
    assert "a loss of 0.02 is not excluded yet" in view.words
    shadow.only_candidate_right = shadow.only_active_right = 90
    shadow.both_right = 2820
    assert judge(text, evidence, FIGURES).verdict == "holds"
    shadow.only_active_right = 240
    assert judge(text, evidence, FIGURES).verdict == "violated"


def test_agreement_is_bounded_from_below():
    evidence = Evidence()
    text = parse("agreement >= 0.8")
    assert judge(text, evidence, FIGURES).verdict == "no data"
    evidence.shadow.samples = 500
    for agreed, verdict in ((450, "holds"), (385, "open"), (300, "violated")):
        evidence.shadow.agreed = agreed
        assert judge(text, evidence, FIGURES).verdict == verdict


def latency(evidence: Evidence, control_bin: int, cohort_bin: int, samples: int = 1000) -> None:
    before, after = [0] * LATENCY_BINS, [0] * LATENCY_BINS
    before[control_bin], after[cohort_bin] = samples, samples
    evidence.latency.stayed(before)
    evidence.latency.moved(after, samples, before)


@pytest.mark.parametrize(
    ("there", "verdict"),
    [(12, "holds"), (13, "holds"), (14, "holds"), (15, "violated"), (17, "violated")],
)
def test_latency_is_compared_at_the_histogram_s_resolution(there: int, verdict: str):
    """Bins are a factor of 1.41 apart: from two bins further on it may be 1.41, from three 2."""
    evidence = Evidence()
    latency(evidence, 12, there)
    view = judge(parse("p95_latency_ms <= control * 1.5"), evidence, FIGURES)
    assert view.verdict == verdict
    assert view.control is not None


def test_a_few_slow_answers_are_not_the_95th_percentile():
    evidence = Evidence()
    latency(evidence, 12, 12)
    slow = [0] * LATENCY_BINS
    slow[31] = 30
    evidence.latency.moved(slow, 1030, None)
    assert judge(parse("p95_latency_ms <= control * 1.5"), evidence, FIGURES).verdict == "holds"


def test_a_slow_device_is_compared_with_itself():
    """It is slow on either version; the others are quick."""
    evidence = Evidence()
    quick = [0] * LATENCY_BINS
    quick[4] = 100_000
    evidence.latency.stayed(quick)
    latency(evidence, 16, 16)
    view = judge(parse("p95_latency_ms <= control * 1.5"), evidence, FIGURES)
    assert (view.verdict, view.control) == ("holds", view.cohort)


def test_confidence_that_moves_shows_and_noise_does_not():
    text = parse("confidence_shift <= 0.15")
    rng = np.random.default_rng(7)
    cells = rng.dirichlet([1.0] * 100)
    for shift, verdict in ((0.0, "holds"), (0.6, "violated")):
        evidence = Evidence()
        moved = (1 - shift) * cells + shift * np.roll(cells, 7)
        before, after = rng.multinomial(20_000, cells), rng.multinomial(20_000, moved)
        evidence.confidence.stayed(before.tolist())
        evidence.confidence.moved(after.tolist(), 20_000, before.tolist())
        assert judge(text, evidence, FIGURES).verdict == verdict


def test_a_spread_forgets_what_is_taken_out():
    one, other = Spread(), Spread()
    for spread in (one, other):
        for value in (0.1, 0.2, 0.4):
            spread.add(value, 0.001)
    one.add(0.9, 0.01)
    one.add(0.9, 0.01, -1)
    assert one.between == pytest.approx(other.between)
    assert one.mean == pytest.approx(other.mean)
    assert Spread().between == Spread().mean_variance == 0.0


def test_a_histogram_that_grows_rows_goes_on():
    one = Histogram()
    one.moved([1] * 40, 40, [40])
    one.moved([1] * 50, 90, [40] * 5)
    assert len(one.cohort) == 50
    assert sum(one.expected) == pytest.approx(90)
