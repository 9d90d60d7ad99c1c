"""What one version did: counted per sample, and what the cloud said of it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.answers import Route
from edge.telemetry.inputs import EVERY, Inputs
from edge.telemetry.tally import VersionTally
from shared.bundle.manifest import Manifest
from shared.fleet.telemetry import (
    CLASSES_MAX,
    CONFIDENCE_BINS,
    INPUT_BINS,
    LATENCY_BINS,
    LATENCY_EDGES_MS,
)

IMAGE = np.zeros((4, 4), np.uint8)


def manifest(labels: int = 3, version: str = "1.0.0") -> Manifest:
    return Manifest.model_construct(
        name="tiny-edge", version=version, labels=tuple(map(str, range(labels)))
    )


def a_tally(labels: int = 3) -> VersionTally:
    return VersionTally(manifest(labels), began=100.0)


def test_routes_and_bins() -> None:
    tally = a_tally()
    for route, confidence in (("accepted", 1.0), ("audit", 0.95), ("escalated", 0.0)):
        tally.judged(IMAGE, 1, confidence, route, 0.05)  # type: ignore[arg-type]  # they are routes
    said = tally.document()
    assert (said.samples, said.escalated, said.audited, said.failed) == (3, 1, 1, 0)
    assert said.confidence[1] == (1, 0, 0, 0, 0, 0, 0, 0, 0, 2)
    assert len(said.confidence) == 3
    assert said.latency[0] == 3


@pytest.mark.parametrize(
    ("latency_ms", "place"),
    [
        (0.0, 0), (0.05, 0), (0.0501, 1), (LATENCY_EDGES_MS[-1], LATENCY_BINS - 2),
        (LATENCY_EDGES_MS[-1] + 1, LATENCY_BINS - 1), (math.inf, LATENCY_BINS - 1),
    ],
)  # fmt: skip
def test_a_latency_is_in_the_first_bin_whose_upper_edge_it_does_not_pass(
    latency_ms: float, place: int
) -> None:
    tally = a_tally()
    tally.judged(IMAGE, 0, 0.5, "accepted", latency_ms)
    assert tally.document().latency[place] == 1


def test_further_classes_share_the_last_row() -> None:
    tally = a_tally(labels=1000)
    for label in (CLASSES_MAX - 2, CLASSES_MAX - 1, CLASSES_MAX, 999):
        tally.judged(IMAGE, label, 0.5, "accepted", 1.0)
    rows = [sum(row) for row in tally.document().confidence]
    assert (len(rows), rows[-2:]) == (CLASSES_MAX, [1, 3])


def test_a_confidence_that_is_no_number_says_nothing_about_confidence() -> None:
    tally = a_tally()
    tally.broke_down("escalated", 1.0)
    tally.raised()
    said = tally.document()
    assert (said.samples, said.failed, said.escalated, sum(said.latency)) == (2, 2, 1, 1)
    assert sum(map(sum, said.confidence)) == 0


def test_the_clouds_answers_by_route() -> None:
    tally = a_tally()
    for audit, cloud_label in ((False, 1), (False, 2), (True, 2), (True, 1)):
        assert tally.cloud_said("1.0.0", 100.5, audit=audit, edge_label=1, cloud_label=cloud_label)
    said = tally.document()
    assert (said.answered, said.disagreed) == (4, 2)
    assert (said.audit_answered, said.audit_disagreed) == (2, 1)


@pytest.mark.parametrize(("version", "arrived"), [("0.9.0", 100.5), ("1.0.0", 99.9)])
def test_an_answer_to_a_sample_of_another_version_or_tally_counts_nowhere(
    version: str, arrived: float
) -> None:
    tally = a_tally()
    assert not tally.cloud_said(version, arrived, audit=True, edge_label=1, cloud_label=2)
    assert tally.document().answered == 0


def test_the_next_version_begins_anew_and_inputs_go_on() -> None:
    first = a_tally()
    first.judged(IMAGE, 0, 0.5, "accepted", 1.0)
    second = first.next(manifest(version="2.0.0"), now=200.0)
    second.judged(IMAGE, 0, 0.5, "accepted", 1.0)
    said = second.document()
    assert (said.version, said.started, said.samples) == ("2.0.0", 1, 1)
    assert second.inputs is first.inputs
    assert not second.cloud_said("2.0.0", 150.0, audit=False, edge_label=0, cloud_label=0)


def test_one_input_in_every_so_many_is_looked_at() -> None:
    tally = a_tally()
    for _ in range(2 * EVERY + 1):
        tally.judged(IMAGE, 0, 0.5, "accepted", 1.0)
    assert tally.inputs.document().samples == 3


@pytest.mark.parametrize(
    ("image", "mean", "deviation"),
    [
        (np.zeros((4, 4), np.uint8), 0, 0),
        (np.full((8, 8, 3), 255, np.uint8), INPUT_BINS - 1, 0),
        (np.array([0, 255] * 8, np.uint8), INPUT_BINS // 2, INPUT_BINS // 2),
        (np.full((1000, 1000), 130, np.uint8), 8, 0),
    ],
)
def test_means_and_deviations(
    image: "np.typing.NDArray[np.uint8]", mean: int, deviation: int
) -> None:
    inputs = Inputs()
    inputs.look(image)
    said = inputs.document()
    assert (said.mean.index(1), said.deviation.index(1)) == (mean, deviation)


def test_an_input_without_values_is_passed_over() -> None:
    inputs = Inputs()
    inputs.look(np.zeros((0, 4), np.uint8))
    assert inputs.document().samples == 0


_routes: st.SearchStrategy[Route] = st.sampled_from(["accepted", "escalated", "audit"])


@given(
    st.lists(
        st.tuples(st.integers(0, 99), st.floats(0, 1), _routes, st.floats(0, 1e6)), max_size=40
    )
)
def test_every_sample_is_in_one_bin_of_each_table(
    samples: list[tuple[int, float, Route, float]],
) -> None:
    tally = a_tally(labels=100)
    for label, confidence, route, latency_ms in samples:
        tally.judged(IMAGE, label, confidence, route, latency_ms)
    said = tally.document()
    assert said.samples == sum(said.latency) == sum(map(sum, said.confidence)) == len(samples)
    assert all(len(row) == CONFIDENCE_BINS for row in said.confidence)
