import numpy as np
import pytest

from cloud.registry.evaluation.company import compare_all
from cloud.registry.evaluation.figures import REFERENCE
from cloud.registry.evaluation.taking import Taking
from shared.bundle.reader import open_bundle
from tests.tiny_bundle import write_tiny_bundle

KEYS = ("onnxruntime/int8", "openvino/int8", "onnxruntime/fp32")


@pytest.fixture
def takings(tmp_path):
    """Each answered as the reference does, and the boundary values with label 0."""
    bundle = open_bundle(write_tiny_bundle(tmp_path / "b", variants=KEYS))
    found = []
    for variant in bundle.manifest.variants:
        taking = Taking(bundle, variant)
        taking.golden = bundle.golden.outputs.copy()
        taking.boundary = np.eye(3, dtype=np.float32)[[0, 0, 0]]
        found.append(taking)
    return found


def test_each_variant_is_held_against_the_reference_and_against_each_other(takings):
    pairs = compare_all(takings)
    assert [(one.variant, one.other) for one in pairs] == [
        (KEYS[0], REFERENCE), (KEYS[1], REFERENCE), (KEYS[2], REFERENCE),
        (KEYS[0], KEYS[1]), (KEYS[0], KEYS[2]), (KEYS[1], KEYS[2]),
    ]  # fmt: skip
    assert all(one.within for one in pairs)
    assert [one.metrics["parity"] for one in takings] == [1.0, 1.0, 1.0]


def test_one_that_differs_lowers_its_own_parity_and_that_of_its_company(takings):
    takings[0].golden[:4] = -takings[0].golden[:4]
    pairs = compare_all(takings)
    assert {(one.variant, one.other) for one in pairs if not one.within} == {
        (KEYS[0], REFERENCE), (KEYS[0], KEYS[1]), (KEYS[0], KEYS[2]),
    }  # fmt: skip
    assert takings[0].metrics["parity"] == 0.75


def test_two_variants_may_be_apart_by_both_their_tolerances(takings):
    tolerance = takings[0].manifest.golden.tolerance["int8"]
    takings[0].golden += 0.9 * tolerance
    takings[1].golden -= 0.9 * tolerance
    pairs = {(one.variant, one.other): one for one in compare_all(takings)}
    assert pairs[KEYS[0], KEYS[1]].within
    assert pairs[KEYS[0], KEYS[1]].difference_max == pytest.approx(1.8 * tolerance, rel=1e-3)


def test_nan_is_infinitely_far(takings):
    takings[1].golden[0, 0] = np.nan
    pairs = {(one.variant, one.other): one for one in compare_all(takings)}
    assert pairs[KEYS[1], REFERENCE].difference_max is None
    assert not pairs[KEYS[1], REFERENCE].within


def test_boundary_values_count_when_finite_and_as_the_most_exact_variant_answers(takings):
    takings[0].boundary = np.eye(3, dtype=np.float32)[[0, 1, 0]]
    takings[1].boundary[2, 0] = np.inf
    compare_all(takings)
    assert [one.metrics["boundary"] for one in takings] == pytest.approx([2 / 3, 2 / 3, 1.0])
    assert [one.finite for one in takings[1].robustness.boundary] == [True, True, False]


def test_a_variant_that_did_not_run_is_left_out(takings):
    takings[1].golden = takings[1].boundary = None
    pairs = compare_all(takings)
    assert all(KEYS[1] not in (one.variant, one.other) for one in pairs)
    assert "parity" not in takings[1].metrics
