"""The rule of generations, and what is kept of what cannot be read."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.fleet.desired import LEAP_MAX, Apply, Came, Follow, Judged, Refuse, lost, started, step
from edge.fleet.kept import Kept
from shared.fleet.desired import DesiredModel
from tests.edge.fleet.station import profile


def model(generation: int, **changes: Any) -> DesiredModel:
    tree = {
        "generation": generation, "model": "m", "version": f"1.0.{generation}",
        "manifest_sha256": "0" * 64,
    }  # fmt: skip
    return DesiredModel.model_validate(tree | changes)


def came(kept: Kept, *models: DesiredModel) -> Kept:
    for one in models:
        kept, _ = step(kept, Came("model", one.to_bytes()))
    return kept


def test_a_newer_one_is_taken_and_followed() -> None:
    kept, effect = step(Kept(), Came("model", model(3).to_bytes()))
    assert (kept.model, kept.model_generation) == (model(3), 3)
    assert effect == Follow(model(3))


@pytest.mark.parametrize("generation", [1, 2, 3])
def test_an_older_one_and_another_of_the_same_generation_change_nothing(generation: int) -> None:
    kept = came(Kept(), model(3))
    again = model(generation, version="9.9.9")
    assert step(kept, Came("model", again.to_bytes())) == (kept, None)


def test_an_empty_message_changes_nothing() -> None:
    kept = came(Kept(), model(3))
    assert step(kept, Came("model", b"")) == (kept, None)
    assert step(kept, Came("profile", b"")) == (kept, None)


def test_unknown_members_are_ignored_and_unknown_settings_refuse_the_profile() -> None:
    tree = json.loads(model(1).to_bytes()) | {"new": 1}
    _, effect = step(Kept(), Came("model", json.dumps(tree).encode()))
    assert effect == Follow(model(1))
    tree = json.loads(profile(6, audit_share=0.5).to_bytes())
    tree["settings"]["new"] = 1
    kept, effect = step(Kept(), Came("profile", json.dumps(tree).encode()))
    assert isinstance(effect, Refuse)
    assert "settings.new: no such setting" in effect.why
    assert (kept.profile, kept.profile_generation) == (None, 6)  # the region hears which one it was
    assert kept.profile_why == effect.why


@pytest.mark.parametrize("generation", ["7", True, 0, -1, 2**54, 7.5, None, [7]])
def test_what_is_no_generation_is_none(generation: object) -> None:
    content = json.dumps({"generation": generation}).encode()
    kept, effect = step(Kept(), Came("model", content))
    assert kept == Kept()
    assert isinstance(effect, Refuse)


@pytest.mark.parametrize("content", [b"[" * 8000, b"\x00", b"[]", b"{" * 9000, b'"\xff"'])
def test_what_is_no_document_is_refused_in_few_words(content: bytes) -> None:
    kept, effect = step(came(Kept(), model(3)), Came("model", content))
    assert kept.model == model(3)
    assert isinstance(effect, Refuse)
    assert len(effect.why) <= 400


def test_an_unreadable_newer_one_leaves_the_one_before_in_place_and_an_older_one_out() -> None:
    kept = came(Kept(), model(3))
    kept, _ = step(kept, Came("model", b'{"generation": 5}'))
    assert (kept.model, kept.model_generation) == (model(3), 5)
    assert "version: is missing" in kept.model_why
    assert step(kept, Came("model", model(4).to_bytes())) == (kept, None)
    kept, effect = step(kept, Came("model", model(6).to_bytes()))
    assert (kept.model_why, effect) == ("", Follow(model(6)))


@pytest.mark.parametrize("generation", [4 + LEAP_MAX, 2**53])
@pytest.mark.parametrize("whole", [True, False])
def test_a_generation_from_far_away_does_not_make_the_device_deaf(
    generation: int, whole: bool
) -> None:
    kept = came(Kept(), model(3))
    kept, _ = step(kept, Came("profile", profile(3).to_bytes()))
    for section, document in (("model", model(3)), ("profile", profile(3))):
        far = document.model_copy(update={"generation": generation}).to_bytes()
        content = far if whole else b'{"generation": %d}' % generation
        after, effect = step(kept, Came(section, content))  # type: ignore[arg-type]
        assert after == kept
        assert isinstance(effect, Refuse)
    near = model(3).model_copy(update={"generation": 3 + LEAP_MAX})
    assert step(kept, Came("model", near.to_bytes()))[1] == Follow(near)


def test_a_profile_with_another_hash_is_refused() -> None:
    bad = profile(2, audit_share=0.5).model_copy(update={"sha256": "1" * 64})
    kept, effect = step(Kept(), Came("profile", bad.to_bytes()))
    assert isinstance(effect, Refuse)
    assert "has sha256" in effect.why
    assert (kept.profile, kept.profile_generation) == (None, 2)


def test_a_profile_is_in_force_once_it_was_applied() -> None:
    one, two = profile(1), profile(2, audit_share=0.5)
    kept, effect = step(Kept(), Came("profile", one.to_bytes()))
    assert (effect, kept.applied) == (Apply(one), None)
    kept, _ = step(kept, Judged(one))
    assert kept.applied == one
    kept, _ = step(kept, Came("profile", two.to_bytes()))
    kept, _ = step(kept, Judged(two, "does not fit"))
    assert (kept.applied, kept.profile_why, kept.profile_generation) == (one, "does not fit", 2)


def test_a_verdict_on_an_older_profile_is_passed_over() -> None:
    kept, _ = step(Kept(), Came("profile", profile(1).to_bytes()))
    kept, _ = step(kept, Came("profile", profile(2).to_bytes()))
    assert step(kept, Judged(profile(1), "late")) == (kept, None)


def test_a_start_goes_on_where_the_process_ended() -> None:
    kept = came(Kept(), model(3))
    kept, _ = step(kept, Came("profile", profile(1).to_bytes()))
    assert started(kept) == (Follow(model(3)), Apply(profile(1)))
    done, _ = step(kept, Judged(profile(1)))
    assert started(done) == (Follow(model(3)),)
    refused, _ = step(kept, Judged(profile(1), "no"))
    assert started(refused) == (Follow(model(3)),)


def test_a_lost_profile_is_said() -> None:
    kept = lost(replace(Kept(), applied=profile(1), profile_generation=1), "no threshold")
    assert (kept.applied, kept.profile_generation) == (None, 1)
    assert kept.profile_why == "not in force any more: no threshold"


_messages = st.lists(
    st.one_of(
        st.integers(1, 9).map(lambda n: model(n).to_bytes()),
        st.integers(1, 9).map(lambda n: json.dumps({"generation": n}).encode()),
        st.binary(max_size=20),
    ),
    max_size=12,
)


@given(_messages)
def test_generations_never_fall_and_copies_change_nothing(messages: list[bytes]) -> None:
    kept = Kept()
    for content in messages:
        before = kept.model_generation
        kept, effect = step(kept, Came("model", content))
        assert kept.model_generation >= before
        if isinstance(effect, Follow):
            assert effect.model.generation == kept.model_generation > before
        again, effect = step(kept, Came("model", content))
        assert again == kept
        assert not isinstance(effect, Follow)
