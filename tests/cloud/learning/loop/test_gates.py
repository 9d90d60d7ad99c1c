"""Two gates by paired answers: exact, and never passed by what is missing."""

import math

import pytest
from scipy.stats import binomtest

from cloud.learning.documents import Acceptance, Teacher
from cloud.learning.loop.events import Paired
from cloud.learning.loop.gates import (
    LOOKS_MAX,
    acceptance_gate,
    p_by_chance,
    paired,
    teacher_gate,
)
from cloud.training import figure_names as names
from tests.cloud.learning.loop.cycles import GOOD


@pytest.mark.parametrize(
    ("first", "second"), [(0, 0), (10, 4), (4, 10), (40, 40), (900, 850), (9_900, 9_800)]
)
def test_the_test_is_the_exact_one(first: int, second: int) -> None:
    exact = 1.0
    if first + second:
        exact = binomtest(first, first + second, 0.5, alternative="greater").pvalue
    assert p_by_chance(first, second) == pytest.approx(exact, rel=1e-9)


def test_a_huge_count_is_tested_by_the_normal_distribution() -> None:
    exact = binomtest(15_200, 30_000, 0.5, alternative="greater").pvalue
    assert p_by_chance(15_200, 14_800) == pytest.approx(exact, rel=0.02)


def test_the_teacher_must_be_better_by_the_margin() -> None:
    people = Paired(both=60, first=25, second=10, neither=5)
    assert teacher_gate(Teacher(), 0.9, people, 0).says == "holds"
    verdict = teacher_gate(Teacher(margin=0.2), 0.9, people, 0)
    assert verdict.says == "refused"
    assert [one.holds for one in verdict.findings] == [False, True]


def test_a_teacher_that_is_as_good_as_the_edge_is_refused_even_without_a_margin() -> None:
    assert teacher_gate(Teacher(), 0.9, Paired(both=50), 0).says == "refused"


def test_looks_at_the_teacher_come_to_an_end() -> None:
    count = 50 * 2 ** (LOOKS_MAX - 1)
    people = Paired(both=count - 41, first=21, second=20)
    assert teacher_gate(Teacher(), 0.9, people, LOOKS_MAX - 1).says == "refused"


def test_each_look_must_be_surer_so_that_looking_often_finds_nothing_by_chance() -> None:
    people = Paired(both=190, first=8, second=2)
    p = p_by_chance(8, 2)
    assert 0.025 < p < 0.1
    assert teacher_gate(Teacher(), 0.9, people, 1).says == "open"


@pytest.mark.parametrize("missing", ["rows", "accuracy", "gained", "spoilt"])
def test_a_figure_of_the_holdout_that_is_missing_is_no_comparison(missing: str) -> None:
    figures = {name: value for name, value in GOOD.items() if name != f"holdout.all.{missing}"}
    assert paired(figures, "all") is None


def test_figures_that_contradict_each_other_are_no_comparison() -> None:
    figures = {**GOOD, names.holdout_gained("all"): 180.0}  # more than there are right answers
    assert paired(figures, "all") is None


def test_the_gain_must_be_large_and_sure() -> None:
    acceptance = Acceptance(gain_min=0.01)
    small = {**GOOD, names.holdout_gained("all"): 3.0, names.holdout_spoilt("all"): 1.0}
    verdict = acceptance_gate(acceptance, small)
    assert verdict.says == "refused"
    assert {one.name: one.holds for one in verdict.findings} == {
        "gain": True, "gain_chance": False, "clean_loss": True,
    }  # fmt: skip


def test_a_gain_by_the_clouds_labels_that_people_see_as_a_loss_is_refused() -> None:
    by_people = {
        names.holdout_rows("person"): 60.0, names.holdout_accuracy("person"): 0.5,
        names.holdout_gained("person"): 2.0, names.holdout_spoilt("person"): 9.0,
    }  # fmt: skip
    verdict = acceptance_gate(Acceptance(), {**GOOD, **by_people})
    assert verdict.says == "refused"
    assert "gain_by_people" in verdict.words


@pytest.mark.parametrize("missing", ["rows", "accuracy", "gained", "spoilt"])
def test_a_figure_by_people_that_is_missing_passes_nothing(missing: str) -> None:
    by_people = {
        names.holdout_rows("person"): 60.0, names.holdout_accuracy("person"): 0.9,
        names.holdout_gained("person"): 9.0, names.holdout_spoilt("person"): 2.0,
    }  # fmt: skip
    assert acceptance_gate(Acceptance(), {**GOOD, **by_people}).says == "holds"
    figures = {k: v for k, v in {**GOOD, **by_people}.items() if k != f"holdout.person.{missing}"}
    verdict = acceptance_gate(Acceptance(), figures)
    assert (verdict.says, verdict.findings[-1].name) == ("refused", "gain_by_people")


@pytest.mark.parametrize("value", [math.nan, -math.inf, math.inf])
def test_clean_figures_that_are_no_numbers_pass_nothing(value: float) -> None:
    verdict = acceptance_gate(Acceptance(clean_loss_max=1), {**GOOD, names.CLEAN: value})
    assert verdict.says == "refused"
    clean = next(one for one in verdict.findings if one.name == "clean_loss")
    assert (clean.holds, clean.value) == (False, None)


def test_the_bound_of_the_clean_loss_is_itself_allowed() -> None:
    figures = {**GOOD, names.CLEAN: 0.875, names.CLEAN_PARENT: 1.0}
    assert acceptance_gate(Acceptance(clean_loss_max=0.125), figures).says == "holds"
    assert acceptance_gate(Acceptance(clean_loss_max=0.124), figures).says == "refused"
