import math

import pytest

from edge.routing.policy import ALONE, Policy, policy_of
from shared.bundle.manifest import Calibration, Threshold
from shared.errors import Unknown


def _threshold(name: str, confidence_min: float) -> Threshold:
    return Threshold(
        name=name, confidence_min=confidence_min, guarantee=None, escalated_share=0.1,
        hybrid_accuracy=0.9,
    )  # fmt: skip


TABLE = Calibration(
    temperature=1.0,
    score="max_softmax",
    thresholds=(_threshold("balanced", 0.8), _threshold("careful", 0.95)),
    default_threshold="balanced",
)


@pytest.mark.parametrize(
    ("confidence", "draw", "route"),
    [
        (0.79, 0.5, "escalated"),
        (0.8, 0.5, "accepted"),
        (0.8, 0.009, "audit"),
        (0.79, 0.0, "escalated"),  # one sample, one reason
        (math.nan, 0.5, "escalated"),
    ],
)
def test_routes(confidence: float, draw: float, route: str) -> None:
    assert Policy(0.8, 0.01).route(confidence, draw) == route


def test_alone_it_accepts_everything() -> None:
    assert ALONE.route(0.0, 0.0) == "accepted"


def test_a_threshold_comes_by_name_by_default_or_as_a_number() -> None:
    assert policy_of(TABLE, None, None, 0.1) == Policy(0.8, 0.1)
    assert policy_of(TABLE, "careful", None, 0.1) == Policy(0.95, 0.1)
    assert policy_of(TABLE, None, 0.3, 0.1) == Policy(0.3, 0.1)


def test_a_bundle_without_thresholds_escalates_nothing_by_confidence() -> None:
    bare = Calibration(temperature=1.0, score="max_softmax")
    assert policy_of(bare, None, None, 0.0).route(0.0, 0.5) == "accepted"


def test_an_unknown_threshold_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(Unknown, match=r"'carefull' is not in .*; it has balanced, careful"):
        policy_of(TABLE, "carefull", None, 0.0)
