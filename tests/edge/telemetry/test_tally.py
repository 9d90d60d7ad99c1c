"""What one version did: counted per sample, and what the cloud said of it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.answers import Route
from edge.telemetry.tally import VersionTally
from shared.bundle.manifest import Manifest
from shared.fleet.telemetry import (
    CLASSES_MAX,
    CONFIDENCE_BINS,
    LATENCY_BINS,
    LATENCY_EDGES_MS,
    STRATA_MAX,
)


def manifest(labels: int = 3, version: str = "1.0.0") -> Manifest:
    return Manifest.model_construct(
        name="tiny-edge", version=version, labels=tuple(map(str, range(labels)))
    )


def a_tally(labels: int = 3) -> VersionTally:
    return VersionTally(manifest(labels), began=100.0)


def test_routes_and_bins() -> None:
    tally = a_tally()
    for route, confidence in (("accepted", 1.0), ("audit", 0.95), ("escalated", 0.0)):
        tally.judged(1, confidence, route, 0.0, 0.05)  # type: ignore[arg-type]  # they are routes
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
    tally.judged(0, 0.5, "accepted", 0.0, latency_ms)
    assert tally.document().latency[place] == 1


def test_further_classes_share_the_last_row() -> None:
    tally = a_tally(labels=1000)
    for label in (CLASSES_MAX - 2, CLASSES_MAX - 1, CLASSES_MAX, 999):
        tally.judged(label, 0.5, "accepted", 0.0, 1.0)
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


def test_the_next_version_begins_anew() -> None:
    first = a_tally()
    first.judged(0, 0.5, "accepted", 0.0, 1.0)
    second = first.next(manifest(version="2.0.0"), now=200.0)
    second.judged(0, 0.5, "accepted", 0.0, 1.0)
    said = second.document()
    assert (said.version, said.started, said.samples) == ("2.0.0", 1, 1)
    assert not second.cloud_said("2.0.0", 150.0, audit=False, edge_label=0, cloud_label=0)


def test_a_novel_input_counts_as_escalated_too() -> None:
    tally = a_tally()
    tally.judged(0, 0.99, "novel", 0.1, 1.0)
    tally.judged(0, 0.5, "escalated", 0.1, 1.0)
    said = tally.document()
    assert (said.novel, said.escalated, said.audited) == (1, 2, 0)
    assert sum(row.confident for row in said.strata) == 0


def test_confident_samples_by_the_share_of_audits_that_was_in_force() -> None:
    tally = VersionTally(manifest(), began=100.0, share=0.01)
    tally.raised()
    tally.broke_down("escalated", 1.0)
    for share, route in (
        (0.01, "accepted"), (0.01, "accepted"), (0.01, "escalated"), (0.2, "audit"),
        (0.2, "accepted"), (0.2, "novel"), (0.01, "audit"),
    ):  # fmt: skip
        tally.judged(0, 0.9, route, share, 1.0)  # type: ignore[arg-type]  # they are routes
    for share, cloud_label in ((0.2, 1), (0.01, 0)):
        tally.cloud_said(
            "1.0.0", 100.5, audit=True, edge_label=0, cloud_label=cloud_label, share=share
        )
    tally.cloud_said("1.0.0", 100.5, audit=False, edge_label=0, cloud_label=1)
    plain, raised = tally.document().strata
    assert (plain.share, plain.confident, plain.audited) == (0.01, 3, 1)
    assert (plain.answered, plain.disagreed) == (1, 0)
    assert (raised.share, raised.confident, raised.audited) == (0.2, 2, 1)
    assert (raised.answered, raised.disagreed) == (1, 1)
    assert tally.document().strata == (plain, raised), "asking twice counts nothing twice"


def test_the_last_stratum_takes_all_further_shares() -> None:
    tally = VersionTally(manifest(), began=0.0, share=0.0)
    for n in range(3 * STRATA_MAX):
        tally.judged(0, 0.9, "audit", n / 100, 1.0)
    strata = tally.document().strata
    assert len(strata) == STRATA_MAX
    assert [row.confident for row in strata] == [1] * (STRATA_MAX - 1) + [2 * STRATA_MAX + 1]
    tally.cloud_said("1.0.0", 1.0, audit=True, edge_label=0, cloud_label=0, share=0.9)
    assert tally.document().strata[-1].answered == 1


_routes: st.SearchStrategy[Route] = st.sampled_from(["accepted", "escalated", "audit", "novel"])


@given(
    st.lists(
        st.tuples(
            st.integers(0, 99),
            st.floats(0, 1),
            _routes,
            st.sampled_from([0.0, 0.01, 0.2]),
            st.floats(0, 1e6),
        ),
        max_size=40,
    )
)
def test_every_sample_is_in_one_bin_of_each_table(
    samples: list[tuple[int, float, Route, float, float]],
) -> None:
    tally = a_tally(labels=100)
    for sample in samples:
        tally.judged(*sample)
    said = tally.document()
    assert said.samples == sum(said.latency) == sum(map(sum, said.confidence)) == len(samples)
    assert all(len(row) == CONFIDENCE_BINS for row in said.confidence)
    assert sum(row.confident for row in said.strata) == said.samples - said.escalated
    assert sum(row.audited for row in said.strata) == said.audited
