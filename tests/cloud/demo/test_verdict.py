import numpy as np
import pytest

from cloud.demo.seen import Seen
from cloud.demo.verdict import Verdict, judge
from tests.cloud.demo.seen import COUNT, LABELS, seen

CLOUD_WRONG = 100


def judged(hybrid: Seen, lost: dict[str, int] | None = None) -> Verdict:
    return judge(LABELS, seen(160), seen(CLOUD_WRONG, escalated=COUNT), hybrid, lost or {})


def test_a_hybrid_as_good_as_the_cloud_at_a_fifth_of_its_traffic_is_worth_it() -> None:
    verdict = judged(seen(CLOUD_WRONG, escalated=400), {"expired": 0})
    assert verdict.failures == ()
    assert verdict.unanswered == 0
    assert verdict.edge.accuracy == pytest.approx(0.92)
    assert verdict.cloud.accuracy == pytest.approx(0.95)
    assert verdict.hybrid.escalated == pytest.approx(0.2)
    assert (verdict.edge.bytes_per_sample, verdict.cloud.bytes_per_sample) == (0, 300)
    assert verdict.hybrid.bytes_per_sample == pytest.approx(60)
    assert 0 < verdict.hybrid.first_p50_ms < verdict.hybrid.first_p99_ms < 1
    assert 1 < verdict.hybrid.final_p50_ms < verdict.hybrid.final_p99_ms < 10


@pytest.mark.parametrize(
    ("hybrid", "lost", "said"),
    [
        (
            seen(CLOUD_WRONG + 7, escalated=100), {},
            "hybrid accuracy 94.65% is more than 0.3% below the cloud's 95.00%",
        ),
        (seen(CLOUD_WRONG, escalated=401), {}, "20.1% escalated, over 20%"),
        (seen(unanswered=3), {}, "3 samples have no final answer"),
        (seen(), {"expired": 0, "outbox_full": 2}, "the loss ledgers are not empty: {'expired': 0, 'outbox_full': 2}"),
    ],
)  # fmt: skip
def test_each_reason_against_it_is_named_alone(
    hybrid: Seen, lost: dict[str, int], said: str
) -> None:
    (failure,) = judged(hybrid, lost).failures
    assert failure == said


def test_six_of_2000_images_may_be_lost_whatever_the_floats_say() -> None:
    for cloud_wrong in range(40, 240):
        always = seen(cloud_wrong, escalated=COUNT)
        assert judge(LABELS, seen(), always, seen(cloud_wrong + 6), {}).failures == ()
        assert judge(LABELS, seen(), always, seen(cloud_wrong + 7), {}).failures != ()


def test_answers_missing_in_any_of_the_three_ways_count() -> None:
    missing = seen(unanswered=1)
    verdict = judge(LABELS, missing, missing, missing, {})
    assert verdict.unanswered == 3


def test_the_curve_ends_at_edge_only_and_cloud_only_and_the_oracle_bounds_it() -> None:
    never, always = seen(160), seen(100, first_wrong=80, escalated=COUNT)
    verdict = judge(LABELS, never, always, seen(), {})
    curve = verdict.curve
    assert curve.share.shape == curve.accuracy.shape == curve.oracle.shape == (COUNT + 1,)
    assert (curve.share[0], curve.share[-1]) == (0, 1)
    for line in (curve.accuracy, curve.oracle):
        assert line[0] == pytest.approx(verdict.edge.accuracy)
        assert line[-1] == pytest.approx(verdict.cloud.accuracy)
    assert (curve.oracle >= curve.accuracy - 1e-12).all()
    assert curve.oracle.max() == pytest.approx(1 - 80 / COUNT)  # wrong at both ends: 80..160


def test_the_curve_escalates_the_least_confident_first() -> None:
    never, always = seen(1), seen(0, escalated=COUNT)  # sample 0 alone is to be gained
    never.confidence[:] = 0.9
    never.confidence[0] = 0.1
    curve = judge(LABELS, never, always, seen(), {}).curve
    assert np.diff(curve.accuracy)[0] == pytest.approx(1 / COUNT)
    never.confidence[0] = 1.0
    curve = judge(LABELS, never, always, seen(), {}).curve
    assert np.diff(curve.accuracy)[-1] == pytest.approx(1 / COUNT)
