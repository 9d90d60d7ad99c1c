from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cloud.serving.failures import Failure
from cloud.serving.fallback import Fallback
from cloud.serving.fallback_settings import FallbackSettings
from cloud.serving.job import Outputs
from cloud.serving.reliability_metrics import ReliabilityMetrics
from shared.bundle.manifest import Manifest
from shared.bundle.reader import open_bundle
from shared.confidence import softmax
from shared.errors import Malformed
from tests.split_bundle import write_backbone
from tests.tiny_bundle import write_tiny_bundle

STALE = Outputs(np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))
RULE = {"kind": "label", "label": "class-1", "confidence": 0.5}


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("models")
    found = open_bundle(write_tiny_bundle(folder / "tiny")).manifest
    return found.model_copy(
        update={"calibration": found.calibration.model_copy(update={"temperature": 2.5})}
    )


def fallback(manifest: Manifest, **settings: object) -> Fallback:
    return Fallback(FallbackSettings.model_validate(settings), manifest)


def test_a_stale_answer_comes_before_the_rule(manifest: Manifest) -> None:
    fallen = fallback(manifest, rule=RULE).answer("fault", 2, lambda: STALE)
    assert fallen is not None
    assert fallen.source == "cache"
    assert fallen.outputs is STALE


def test_the_rule_answers_every_row_and_says_so(manifest: Manifest) -> None:
    fallen = fallback(manifest, rule=RULE).answer("fault", 4, lambda: None)
    assert fallen is not None
    assert fallen.source == "rule"
    expected = np.tile(np.array([0.25, 0.5, 0.25], np.float32), (4, 1))
    assert np.allclose(fallen.outputs.probabilities, expected)
    assert fallen.outputs.logits.dtype == np.float32
    assert np.allclose(softmax(fallen.outputs.logits, 2.5), expected, atol=1e-6)


def test_the_prior_answers_how_often_each_label_occurs(manifest: Manifest) -> None:
    rule = {"kind": "prior", "shares": {"class-2": 0.75, "class-0": 0.25}}
    fallen = fallback(manifest, rule=rule).answer("fault", 1, lambda: None)
    assert fallen is not None
    assert fallen.outputs.probabilities.tolist() == [[0.25, 0.0, 0.75]]
    assert np.isfinite(fallen.outputs.logits).all()
    assert np.allclose(softmax(fallen.outputs.logits, 2.5), [[0.25, 0, 0.75]], atol=1e-3)


@pytest.mark.parametrize("failure", ["overload", "deadline", "refused", "away"])
def test_by_default_nothing_but_a_fault_is_answered_by_something_else(
    manifest: Manifest, failure: Failure
) -> None:
    def not_looked_for() -> Outputs:
        raise AssertionError

    assert fallback(manifest, rule=RULE).answer(failure, 1, not_looked_for) is None


@pytest.mark.parametrize("failure", ["overload", "deadline"])
def test_an_overload_or_a_deadline_is_answered_when_asked_for(
    manifest: Manifest, failure: Failure
) -> None:
    fallen = fallback(manifest, on=[failure]).answer(failure, 2, lambda: STALE)
    assert fallen is not None
    assert fallback(manifest, on=[failure]).answer("fault", 2, lambda: STALE) is None


def test_a_callers_mistake_cannot_be_asked_for() -> None:
    for failure in ("refused", "away"):
        with pytest.raises(ValueError, match=r"on\.0"):
            FallbackSettings.model_validate({"on": [failure]})


def test_without_a_stale_answer_and_without_a_rule_the_failure_stands(manifest: Manifest) -> None:
    assert fallback(manifest).answer("fault", 1, lambda: None) is None


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"kind": "label", "label": "cat", "confidence": 0.9}, "tiny-edge has no label 'cat'"),
        ({"kind": "prior", "shares": {"cat": 1.0}}, "tiny-edge has no label 'cat'"),
        ({"kind": "label", "label": "class-1", "confidence": 1 / 3}, "no winner's; make it more"),
    ],
)
def test_a_rule_that_does_not_fit_the_model_is_refused(
    manifest: Manifest, rule: dict[str, object], said: str
) -> None:
    with pytest.raises(Malformed, match=said):
        fallback(manifest, rule=rule)


def test_half_is_no_winner_of_two(manifest: Manifest) -> None:
    two = manifest.model_copy(update={"labels": ("class-0", "class-1")})
    with pytest.raises(Malformed, match="no winner's"):
        fallback(two, rule=RULE)
    fallback(two, rule=RULE | {"confidence": 0.51})


def test_a_model_without_labels_has_no_rule(tmp_path: Path) -> None:
    backbone = open_bundle(write_backbone(tmp_path / "backbone")).manifest
    with pytest.raises(Malformed, match="it has none, so no rule"):
        fallback(backbone, rule=RULE)
    fallback(backbone)


@pytest.mark.parametrize(
    "rule",
    [
        {"kind": "prior", "shares": {"a": 0.5, "b": 0.4}},
        {"kind": "prior", "shares": {}},
        {"kind": "prior", "shares": {"a": 2.0, "b": -1.0}},
        {"kind": "prior", "shares": {"a": float("nan")}},
        {"kind": "label", "label": "a", "confidence": 1.1},
        {"kind": "label", "label": "a", "confidence": 0.0},
        {"kind": "dice"},
    ],
)
def test_rules_that_are_none(rule: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="rule"):
        FallbackSettings.model_validate({"rule": rule})


def test_figures(manifest: Manifest) -> None:
    registry = CollectorRegistry()
    metrics = ReliabilityMetrics(registry)
    fallen = fallback(manifest, rule=RULE).answer("fault", 1, lambda: None)
    assert fallen is not None
    metrics.fell("tiny", "fault", fallen)
    text = generate_latest(registry).decode()
    assert 'hybridge_fallbacks_total{failure="fault",model="tiny",source="rule"} 1.0' in text
