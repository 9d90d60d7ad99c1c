"""Who leaves memory when another model comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.serving.pool_plan import Key, Resident, rising, room_for, surplus
from shared.errors import Overloaded, TooLarge

NEW = Key("new", "1.0.0")


def resident(
    name: str, used_at: float = 0.0, *, size: int = 10, version: str = "1.0.0",
    active: bool = True, busy: bool = False, pinned: bool = False,
) -> Resident:  # fmt: skip
    return Resident(Key(name, version), size, used_at, active, busy, pinned)


def room(*residents: Resident, needs: int = 10, leaving: int = 0, of: int = 30, key: Key = NEW):
    return [
        str(gone) for gone in room_for(key, needs, residents, leaving_bytes=leaving, bytes_max=of)
    ]


def test_nobody_leaves_while_there_is_room() -> None:
    assert room(resident("a"), resident("b")) == []


def test_the_least_recently_used_leaves_and_no_more_than_needed() -> None:
    assert room(resident("a", 3), resident("b", 1), resident("c", 2)) == ["b 1.0.0"]


def test_versions_that_no_name_leads_to_leave_first() -> None:
    old = resident("a", 9, version="0.9.0", active=False)
    assert room(resident("a", 10), old, resident("b", 1)) == ["a 0.9.0"]


def test_one_with_work_in_hand_stays() -> None:
    assert room(resident("a", 1, busy=True), resident("b", 2), resident("c", 3)) == ["b 1.0.0"]


def test_a_pinned_one_stays() -> None:
    assert room(resident("a", 1, pinned=True), resident("b", 2), resident("c", 3)) == ["b 1.0.0"]


def test_the_active_version_stays_while_its_successor_loads() -> None:
    new = Key("a", "2.0.0")
    assert room(resident("a", 1), resident("b", 2), resident("c", 3), key=new) == ["b 1.0.0"]


def test_what_can_never_fit_is_refused_with_what_to_do() -> None:
    with pytest.raises(TooLarge, match=r"new 1.0.0 needs .* pool.memory_bytes_max; raise it"):
        room(needs=31)
    with pytest.raises(TooLarge, match=r"beside a 1.0.0, which stay; raise it, or unload one"):
        room(resident("a", pinned=True), needs=21)


def test_what_would_fit_once_work_is_done_may_come_again() -> None:
    with pytest.raises(Overloaded, match="try again"):
        room(resident("a", busy=True), resident("b", busy=True), resident("c", busy=True))
    with pytest.raises(Overloaded, match="try again"):
        room(resident("a", busy=True), leaving=20)


def test_versions_over_the_bound_leave_but_never_the_active_one() -> None:
    versions = [
        resident("a", 1, version="1.0.0"),  # the one that its name leads to
        resident("a", 5, version="2.0.0", active=False),
        resident("a", 3, version="3.0.0", active=False),
        resident("b", 0, version="1.0.0"),
    ]
    assert surplus("a", versions, 2) == (Key("a", "3.0.0"),)
    assert surplus("a", versions, 1) == (Key("a", "3.0.0"), Key("a", "2.0.0"))
    assert surplus("a", versions, 3) == ()


def test_versions_rise_by_number() -> None:
    assert rising(["1.10.0", "1.9.0", "0.11.2"]) == ("0.11.2", "1.9.0", "1.10.0")


residents_strategy = st.lists(
    st.builds(
        Resident,
        st.builds(Key, st.sampled_from("abcd"), st.sampled_from(["1.0.0", "2.0.0", "3.0.0"])),
        st.integers(0, 50), st.floats(0, 100), st.booleans(), st.booleans(), st.booleans(),
    ),
    max_size=8, unique_by=lambda r: r.key,
)  # fmt: skip


@given(residents_strategy, st.integers(0, 80), st.integers(0, 40), st.integers(1, 150))
def test_a_plan_makes_it_fit_spares_the_protected_and_takes_none_in_vain(
    residents: list[Resident], needs: int, leaving: int, most: int
) -> None:
    key = Key("a", "9.0.0")
    try:
        gone = room_for(key, needs, residents, leaving_bytes=leaving, bytes_max=most)
    except (TooLarge, Overloaded):
        return
    left = [r for r in residents if r.key not in gone]
    assert sum(r.memory_bytes for r in left) + leaving + needs <= most
    for r in residents:
        if r.pinned or r.busy or (r.active and r.key.name == "a"):
            assert r.key not in gone
    if gone:
        last = next(r for r in residents if r.key == gone[-1])
        assert sum(r.memory_bytes for r in [*left, last]) + leaving + needs > most
