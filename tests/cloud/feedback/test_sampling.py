"""Which samples a data set takes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.feedback.documents import DataSetSpec, Source
from cloud.feedback.ranking import CODES
from cloud.feedback.sampling import Candidates, Chosen, cap_of, choose, even_parts
from cloud.store.draw import FOLDS, draw_of
from tests.cloud.feedback.world import sample_of

PERSON, CLOUD = CODES[Source.PERSON], CODES[Source.CLOUD]


def candidates(
    labels: list[int], *, devices: list[int] | None = None, sites: list[int] | None = None,
    sources: list[int] | None = None, received: list[float] | None = None,
    contradicted: list[int] = (), sure: float = 0.9,
) -> Candidates:  # fmt: skip
    count = len(labels)
    split = np.zeros(count, np.bool_)
    split[list(contradicted)] = True
    devices = list(range(count)) if devices is None else devices
    return Candidates(
        seqs=np.arange(count), draws=np.array([draw_of(sample_of(n)) for n in range(count)], "u8"),
        devices=np.array(devices, "i8"), sites=np.array(sites or [0] * count, "i8"),
        labels=np.array(labels, "i8"), sources=np.array(sources or [CLOUD] * count, "u1"),
        cloud_confidence=np.full(count, sure, "f4"), contradicted=split,
        received=np.array(received or [0.0] * count),
        device_names=tuple(f"cam-{n}" for n in range(max(devices, default=0) + 1)),
    )  # fmt: skip


def spec(**settings: object) -> DataSetSpec:
    return DataSetSpec(model="m", **settings)


def counts(of: Candidates, chosen: Chosen, what: str) -> list[int]:
    return np.bincount(getattr(of, what)[chosen.taken]).tolist()


def test_labels_that_do_not_count_are_left_out_by_reason():
    of = candidates([0, 1, 0, 1], sources=[CLOUD, CLOUD, PERSON, PERSON], contradicted=[3])
    chosen = choose(of, spec(source_min=Source.PERSON))
    assert chosen.taken.tolist() == [2]
    assert chosen.excluded == {"contradicted": 1, "low_rank": 2}


def test_an_unsure_cloud_is_left_out_and_a_person_counts_whatever_it_thought():
    of = candidates([0, 1], sources=[CLOUD, PERSON], sure=0.5)
    chosen = choose(of, spec(cloud_confidence_min=0.6))
    assert chosen.taken.tolist() == [1]
    assert chosen.excluded == {"unsure": 1}


def test_strata_give_evenly_and_small_ones_all_they_have():
    of = candidates([0] * 500 + [1] * 50 + [2] * 3)
    assert counts(of, choose(of, spec(rows_max=60)), "labels") == [29, 28, 3]
    plain = choose(of, spec(rows_max=60, stratify=()))
    assert counts(of, plain, "labels")[0] > 45


def test_the_holdout_is_as_samples_came_until_rows_max_binds_and_then_only_without_strata():
    of = candidates([0] * 3600 + [1] * 400)

    def share_of_rare(chosen: Chosen) -> float:
        return float((of.labels[chosen.taken[chosen.holdout]] == 1).mean())

    whole = choose(of, spec())
    assert whole.excluded == {}
    assert share_of_rare(whole) == pytest.approx(0.1, abs=0.04)
    even = choose(of, spec(rows_max=800))
    assert even.excluded == {"over_rows_max": 3200}
    assert share_of_rare(even) == pytest.approx(0.5, abs=0.15)
    assert share_of_rare(choose(of, spec(rows_max=2000, stratify=()))) < 0.2


def test_sites_are_strata_too():
    of = candidates([0, 1] * 100, sites=[0] * 180 + [1] * 20)
    assert counts(of, choose(of, spec(rows_max=40)), "sites") == [20, 20]


def test_an_age_of_one_half_life_counts_half():
    of = candidates([0] * 4000, received=[0.0] * 2000 + [100.0] * 2000)
    chosen = choose(of, spec(rows_max=300, half_life_s=100.0))
    old = int((chosen.taken < 2000).sum())
    assert old / (300 - old) == pytest.approx(0.5, abs=0.12)
    ancient = choose(of, spec(rows_max=300, half_life_s=0.001))  # nothing underflows
    assert int((ancient.taken < 2000).sum()) == 0


def test_what_people_labelled_comes_first():
    of = candidates([0] * 100, sources=[CLOUD] * 95 + [PERSON] * 5, received=[9.0] * 95 + [0.0] * 5)
    chosen = choose(of, spec(rows_max=10, half_life_s=1.0))
    assert chosen.taken[-5:].tolist() == [95, 96, 97, 98, 99]


def test_a_flood_is_capped_by_class_and_its_device_named():
    of = candidates(
        [1] * 900 + [0] * 96 + [1] * 96, devices=[12] * 900 + [n % 12 for n in range(192)]
    )
    chosen = choose(of, spec(device_class_share_max=0.2))
    (named,) = chosen.flooding
    assert (named.device, named.label, named.rows, named.dropped) == ("cam-12", 1, 900, 876)
    assert chosen.excluded == {"flooding": 876}
    taken = of.devices[chosen.taken][of.labels[chosen.taken] == 1]
    assert (taken == 12).mean() <= 0.2


def test_cameras_whose_scene_changed_do_not_flood_though_they_are_half_the_fleet():
    """Two of four, which send nearly everything from then on; chance has one ahead by a few rows."""
    of = candidates(
        [n % 2 for n in range(400)] + [0] * 24,
        devices=[n // 2 % 2 for n in range(400)] + [0] * 10 + [2, 3] * 7,
    )
    assert not choose(of, spec(device_class_share_max=0.2)).flooding


def test_seed_changes_the_draw_and_holdout_never_moves():
    of = candidates([0, 1] * 200)
    first, second = (choose(of, spec(rows_max=100, seed=seed)) for seed in (0, 1))
    assert first.taken.tolist() != second.taken.tolist()
    for chosen in (first, second):
        held = [of.draws[n] % FOLDS < 0.1 * FOLDS for n in chosen.taken]
        assert chosen.holdout.tolist() == held
    assert not choose(of, spec(holdout_share=0.0)).holdout.any()


def test_a_sample_more_changes_little():
    """Who was taken stays, but for the one that gives his place."""
    labels = [n % 2 for n in range(301)]
    before = set(choose(candidates(labels[:-1]), spec(rows_max=100)).taken.tolist())
    after = set(choose(candidates(labels), spec(rows_max=100)).taken.tolist())
    assert len(before ^ after) <= 2


def test_of_nothing_nothing_is_taken():
    chosen = choose(candidates([]), spec())
    assert len(chosen.taken) == 0
    assert chosen.excluded == {}


@given(st.lists(st.integers(1, 300), min_size=1, max_size=12), st.floats(0.05, 1))
def test_no_device_has_more_than_its_share_of_what_is_left(has, share):
    cap = cap_of(has, share)
    left = [min(count, cap) for count in has]
    allowed = max(share, 2.5 / len(has))
    if len(has) < 3 or allowed >= 1:
        assert left == has
        return
    assert cap >= 1
    assert cap == 1 or max(left) <= allowed * sum(left) + 1e-6
    if cap < max(has):  # and a bigger cap would break that
        more = [min(count, cap + 1) for count in has]
        assert max(more) > allowed * sum(more) - 1e-6


@given(st.lists(st.integers(0, 50), max_size=20), st.integers(0, 300))
def test_parts_are_even_and_all_that_is_wanted(has, wanted):
    parts = even_parts(has, wanted)
    assert all(0 <= part <= count for part, count in zip(parts, has, strict=True))
    assert sum(parts) == min(wanted, sum(has))
    short = [part for part, count in zip(parts, has, strict=True) if part < count]
    full = [part for part, count in zip(parts, has, strict=True) if part == count]
    assert not short or max(full, default=0) <= max(short) + 1
    assert not short or max(short) - min(short) <= len(has)


@pytest.mark.parametrize("half_life_s", [1e-320, 1e-300, 0.0])
def test_a_half_life_that_no_number_holds_is_refused(half_life_s):
    with pytest.raises(ValueError, match="half_life_s"):
        spec(half_life_s=half_life_s)
