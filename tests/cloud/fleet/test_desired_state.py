"""When a device is to have something new, and with which generation."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cloud.fleet.desired_state import (
    GENERATION_BELIEVED_MAX,
    Situation,
    next_generation,
    ordered,
    settled,
)
from cloud.fleet.documents import Baseline, Group, Profile
from shared.fleet.desired import DesiredModel, DesiredProfile
from shared.fleet.profile import ProfileSettings, digest

A, B = "a" * 64, "b" * 64
GROUP = Group(name="lyon", models={"m": Baseline(version="1.1.0", manifest_sha256=B)})


def _model(version: str = "1.0.0", generation: int = 1, **values: Any) -> DesiredModel:
    sha256 = {"1.0.0": A, "1.1.0": B}[version]
    return DesiredModel(
        generation=generation, model="m", version=version, manifest_sha256=sha256, **values
    )


def _profile(version: int = 1) -> Profile:
    settings = ProfileSettings(telemetry_s=10.0 * version)
    return Profile(
        name="camera", version=version, sha256=digest(settings), settings=settings, pushed_by="ann",
        pushed_at=1.0,
    )  # fmt: skip


def _settled(**values: Any) -> Any:
    return settled(Situation(**{"group": GROUP, "profile": None, "model": "m", **values}))


def test_a_newcomer_gets_what_its_group_has():
    profile = _profile()
    assert _settled(profile=profile) == (
        _model("1.1.0"),
        DesiredProfile(
            generation=1, name="camera", version=1, sha256=profile.sha256,
            settings=profile.settings,
        ),
    )  # fmt: skip


def test_one_that_said_nothing_yet_gets_no_model():
    assert _settled(model=None) == ()


def test_one_with_a_model_that_the_group_does_not_have_is_left_alone():
    assert _settled(model="other") == ()


def test_what_is_desired_already_gets_no_new_generation():
    assert _settled(desired_model=_model("1.1.0", 7)) == ()


def test_another_baseline_is_a_new_generation():
    assert _settled(desired_model=_model("1.0.0", 7)) == (_model("1.1.0", 8),)


def test_after_a_rollout_nobody_watches_any_more():
    watched = _model("1.1.0", 7, rollout="r", audit_share=0.05, attempt=3, undo=True)
    assert _settled(desired_model=watched) == (_model("1.1.0", 8, attempt=3),)


def test_a_held_section_stays_and_the_other_does_not():
    profile = _profile()
    found = _settled(profile=profile, held=frozenset({"model"}), desired_model=_model())
    assert [type(one) for one in found] == [DesiredProfile]
    found = _settled(profile=profile, held=frozenset({"profile"}))
    assert [type(one) for one in found] == [DesiredModel]


def test_a_revoked_device_gets_nothing():
    assert _settled(revoked=True) == ()


def test_a_device_whose_counter_is_ahead_gets_its_order_again_above_it():
    """The region lost its store: what it ordered since is lower than what devices have on disk."""
    assert _settled(desired_model=_model("1.1.0", 2), seen_model=40) == (_model("1.1.0", 41),)


def test_that_holds_in_a_rollout_too():
    order = _model("1.0.0", 2, rollout="r")
    found = _settled(desired_model=order, seen_model=40, held=frozenset({"model"}))
    assert found == (order.model_copy(update={"generation": 41}),)


def test_a_lie_about_the_generation_is_not_followed_beyond_what_a_counter_reaches():
    assert next_generation(3, GENERATION_BELIEVED_MAX) == GENERATION_BELIEVED_MAX + 1
    assert next_generation(3, GENERATION_BELIEVED_MAX + 1) == 4
    assert ordered(_model("1.0.0", 3), _model("1.0.0"), GENERATION_BELIEVED_MAX + 1) is None


@given(st.lists(st.tuples(st.sampled_from(["1.0.0", "1.1.0"]), st.integers(0, 20)), max_size=20))
def test_generations_rise_whatever_is_ordered_and_reported(orders):
    current, generations = None, [0]
    for version, seen in orders:
        new = ordered(current, _model(version), seen)
        if new is not None:
            assert new.generation > max(generations[-1], seen)
            generations.append(new.generation)
            current = new
        assert current is not None
        assert current.version == version
