"""Units keep their arm, arms get their shares, and little moves when shares do."""

from hypothesis import given
from hypothesis import strategies as st

from cloud.experiments.placing import arm_at, position

UNITS = [f"camera-{n}" for n in range(4000)]


def test_the_same_unit_is_always_in_the_same_arm_on_every_machine() -> None:
    # by hand: the first 8 bytes of `printf 'colour\0camera-1' | sha256sum`
    assert position("colour", "camera-1") == 0xE7B9B8428C888300 / 2**64


def test_arms_get_their_shares() -> None:
    at = [position("colour", unit) for unit in UNITS]
    found = [arm_at((0.5, 0.3, 0.2), each) for each in at]
    for arm, share in enumerate((0.5, 0.3, 0.2)):
        assert abs(found.count(arm) / len(UNITS) - share) < 0.03  # four standard deviations


def test_another_experiment_places_anew() -> None:
    same = sum(
        arm_at((0.5, 0.5), position("colour", u)) == arm_at((0.5, 0.5), position("shape", u))
        for u in UNITS
    )
    assert abs(same / len(UNITS) - 0.5) < 0.04


def test_a_wider_arm_takes_from_its_neighbour_only() -> None:
    for unit in UNITS:
        before = arm_at((0.9, 0.1), position("colour", unit))
        after = arm_at((0.8, 0.2), position("colour", unit))
        assert (before, after) in {(0, 0), (0, 1), (1, 1)}


@given(st.floats(0, 1, exclude_max=True), st.integers(2, 8))
def test_every_place_has_an_arm(at: float, arms: int) -> None:
    assert 0 <= arm_at([1 / arms] * arms, at) < arms


def test_rounding_leaves_nobody_out() -> None:
    assert arm_at([0.1] * 10, 0.9999999999999999) == 9
