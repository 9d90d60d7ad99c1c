from hypothesis import given
from hypothesis import strategies as st

from edge.updates.shadow_tally import WAITING_MAX, ShadowTally
from shared.fleet.telemetry import LATENCY_BINS, LATENCY_EDGES_MS, Shadow
from shared.ids import SampleId
from shared.new_ids import new_sample_id

CANDIDATE, ACTIVE, OTHER = 1, 2, 3


def pairs(shadow: Shadow) -> tuple[int, int, int, int]:
    return (
        shadow.both_right, shadow.only_candidate_right, shadow.only_active_right, shadow.both_wrong,
    )  # fmt: skip


def test_pairs_by_the_clouds_label_whoever_comes_first() -> None:
    for cloud_first in (True, False):
        tally = ShadowTally("2.0.0", 3)
        for own, cloud in ((2, 2), (1, 1), (1, 2), (1, 3)):
            sample = new_sample_id()
            if cloud_first:
                tally.cloud_said(sample, cloud)
            tally.ran(sample, own, ACTIVE, 1.0)
            if not cloud_first:
                tally.cloud_said(sample, cloud)
        shadow = tally.shadow()
        assert pairs(shadow) == (1, 1, 1, 1)
        assert (shadow.version, shadow.started, shadow.samples) == ("2.0.0", 3, 4)
        assert shadow.agreed == 1


def test_a_second_copy_of_a_cloud_answer_adds_nothing() -> None:
    tally, sample = ShadowTally("2.0.0", 1), new_sample_id()
    tally.ran(sample, CANDIDATE, ACTIVE, 1.0)
    for _ in range(3):
        tally.cloud_said(sample, CANDIDATE)
    assert pairs(tally.shadow()) == (0, 1, 0, 0)


def test_a_sample_that_the_candidate_failed_is_no_pair() -> None:
    tally, sample = ShadowTally("2.0.0", 1), new_sample_id()
    tally.ran(sample, None, ACTIVE, 1.0)
    tally.cloud_said(sample, ACTIVE)
    shadow = tally.shadow()
    assert (shadow.samples, shadow.failed, sum(shadow.latency)) == (1, 1, 0)
    assert pairs(shadow) == (0, 0, 0, 0)


def test_latencies_fall_into_the_reports_bins() -> None:
    tally = ShadowTally("2.0.0", 1)
    for edge in LATENCY_EDGES_MS:
        tally.ran(new_sample_id(), 0, 0, edge)  # the upper edge belongs to its bin
    tally.ran(new_sample_id(), 0, 0, 1e9)
    assert tally.shadow().latency == (1,) * LATENCY_BINS


def test_what_waits_for_its_other_half_is_bounded_and_the_oldest_goes() -> None:
    for cloud_first in (True, False):
        tally = ShadowTally("2.0.0", 1)
        samples = [new_sample_id() for _ in range(WAITING_MAX + 1)]

        def ran(sample: SampleId, tally: ShadowTally = tally) -> None:
            tally.ran(sample, CANDIDATE, ACTIVE, 1.0)

        def said(sample: SampleId, tally: ShadowTally = tally) -> None:
            tally.cloud_said(sample, CANDIDATE)

        early, late = (said, ran) if cloud_first else (ran, said)
        for sample in samples:
            early(sample)
        late(samples[0])
        assert sum(pairs(tally.shadow())) == 0
        for sample in samples[1:]:
            late(sample)
        assert sum(pairs(tally.shadow())) == WAITING_MAX


IDS = [new_sample_id() for _ in range(5)]
labels = st.integers(0, 2)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("ran"), st.integers(0, 4), labels),
            st.tuples(st.just("cloud"), st.integers(0, 4), labels),
        ),
        max_size=30,
    )
)
def test_counts_never_fall_and_never_contradict_each_other(
    said: list[tuple[str, int, int]],
) -> None:
    tally, before, ran = ShadowTally("2.0.0", 1), 0, set[int]()
    for what, number, label in said:
        if what == "cloud":
            tally.cloud_said(IDS[number], label)
        elif number not in ran:
            ran.add(number)
            tally.ran(IDS[number], label, 0, 1.0)
        shadow = tally.shadow()
        assert before <= (before := sum(pairs(shadow))) <= shadow.samples
