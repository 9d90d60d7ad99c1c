import pytest

from cloud.cli.rollout_spec import (
    criteria_from,
    model_subject,
    profile_subject,
    request,
    seed_of,
    waves_from,
)
from cloud.rollouts.documents import CRITERIA, RolloutSpec
from shared.errors import Malformed


def test_what_is_not_named_is_the_fleets_to_say() -> None:
    subject = model_subject("fashion-edge", "1.4.0")
    sent = request({"subject": subject, "group": "all", "canary": None, "watch_s": 60.0})
    assert sent == {
        "subject": {"kind": "model", "model": "fashion-edge", "version": "1.4.0"},
        "group": "all", "watch_s": 60.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("member", "value", "words"),
    [
        ("canary", 7.0, "canary: "),
        ("canry", 0.1, "canry: no such setting"),
        ("waves", (), "waves: "),
        ("window", ("25-26",), "window.0: "),
        ("risk", 0.7, "risk: "),
        ("group", "No Group", "group: "),
    ],
)
def test_a_form_that_does_not_fit_is_refused(member: str, value: object, words: str) -> None:
    tree = {"subject": profile_subject("camera", 3), "group": "all", member: value}
    with pytest.raises(Malformed, match=words):
        request(tree)


def test_a_seed_names_the_version_whatever_the_model_is_called() -> None:
    assert seed_of(model_subject("fashion-edge", "1.4.0")) == "1.4.0-fashion-edge"
    assert seed_of(model_subject("m" * 64, "1.4.0")).startswith("1.4.0-mmm")
    assert len(seed_of(model_subject("m" * 64, "1.4.0"))) == 64
    assert seed_of(model_subject("a b", "1/2")) == "1-2-a-b"


def test_waves_double_up_to_everybody() -> None:
    assert waves_from(0.05) == (0.1, 0.2, 0.4, 0.8, 1.0)
    assert waves_from(0.5, 3.0) == (1.0,)
    assert waves_from(1.0) == (1.0,)
    many = waves_from(1e-6, 1.01)
    assert (len(many), many[-1]) == (20, 1.0)
    for waves in (many, waves_from(0.05)):
        RolloutSpec.model_validate(
            {"subject": {**model_subject("m", "1.0.0"), "manifest_sha256": "a" * 64},
             "group": "all", "seed": "s", "waves": waves}
        )  # fmt: skip


@pytest.mark.parametrize(("canary", "factor"), [(0.0, 2.0), (0.1, 1.0), (2.0, 2.0)])
def test_waves_that_would_not_grow_are_refused(canary: float, factor: float) -> None:
    with pytest.raises(Malformed, match="--exponential"):
        waves_from(canary, factor)


def test_a_criterion_takes_the_place_of_its_measures_default() -> None:
    found = criteria_from(["disagreement <= 0.1"])
    assert found is not None
    assert set(CRITERIA) - set(found) == {"disagreement <= control + 0.02"}
    assert found[-1] == "disagreement <= 0.1"
    assert criteria_from(["silent <= 0.1"], only=True) == ("silent <= 0.1",)
    assert criteria_from([]) is None


def test_a_criterion_that_does_not_parse_is_refused_with_its_position() -> None:
    with pytest.raises(Malformed, match="position 1: 'disagrement' is not measured; did you mean"):
        criteria_from(["disagrement <= 0.1"])
