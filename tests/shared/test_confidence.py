import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.confidence import fuse, label_and_confidence, softmax

LOGITS = st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=12)
TEMPERATURES = st.floats(0.1, 10)


@given(LOGITS, TEMPERATURES)
def test_softmax_is_a_distribution_in_the_order_of_the_logits(
    logits: list[float], temperature: float
) -> None:
    got = softmax(np.array(logits, np.float32), temperature)
    assert got.dtype == np.float32
    assert got.sum() == pytest.approx(1, abs=1e-5)
    assert (got >= 0).all()
    assert got[int(np.argmax(logits))] == got.max()


def test_softmax_of_huge_logits_does_not_overflow() -> None:
    got = softmax(np.array([[1e30, 0.0], [-1e30, 0.0]], np.float32))
    np.testing.assert_array_equal(got, [[1, 0], [0, 1]])


@given(LOGITS, TEMPERATURES)
def test_the_plain_float_path_agrees_with_softmax(logits: list[float], temperature: float) -> None:
    label, confidence = label_and_confidence(logits, temperature)
    reference = softmax(np.array([logits], np.float32), temperature)[0]
    assert logits[label] == max(logits)
    assert confidence == pytest.approx(float(reference.max()), abs=1e-4)


def test_a_higher_temperature_is_less_sure() -> None:
    logits = [3.0, 1.0, 0.0]
    assert label_and_confidence(logits, 0.5)[1] > label_and_confidence(logits, 2.0)[1]


def test_equal_logits_share_evenly() -> None:
    label, confidence = label_and_confidence([2.0, 2.0, 2.0, 2.0], 1.3)
    assert label == 0
    assert confidence == pytest.approx(0.25)


EDGE = np.array([0.7, 0.2, 0.1], np.float32)
CLOUD = np.array([0.1, 0.8, 0.1], np.float32)


def test_fusion_at_its_ends_is_one_or_the_other() -> None:
    np.testing.assert_allclose(fuse(EDGE, CLOUD, 0.0), EDGE, atol=1e-6)
    np.testing.assert_allclose(fuse(EDGE, CLOUD, 1.0), CLOUD, atol=1e-6)


def test_fusion_between_is_the_normalised_geometric_mean() -> None:
    pooled = np.sqrt(EDGE * CLOUD)
    np.testing.assert_allclose(fuse(EDGE, CLOUD, 0.5), pooled / pooled.sum(), atol=1e-6)


@given(st.floats(0, 1))
def test_fusion_is_always_a_distribution(weight: float) -> None:
    certain = np.array([1, 0, 0], np.float32)
    got = fuse(certain, CLOUD, weight)
    assert np.isfinite(got).all()
    assert got.sum() == pytest.approx(1, abs=1e-5)


def test_agreement_stays_agreement() -> None:
    assert fuse(EDGE, EDGE, 0.3).argmax() == 0
