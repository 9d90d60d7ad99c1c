"""One contract for the three policies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.serving.caches.policy import Bounds, Policy, policy_of
from cloud.serving.caches.settings import PolicyName

NAMES: tuple[PolicyName, ...] = ("lru", "lfu", "arc")
ENTRIES_MAX, BYTES_MAX = 5, 100


def policy(name: PolicyName) -> Policy[int, bytes]:
    return policy_of(name, Bounds(ENTRIES_MAX, BYTES_MAX), len)


@pytest.mark.parametrize("name", NAMES)
@settings(deadline=None)  # the machine may be busy
@given(trace=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 120)), max_size=120))
def test_never_more_entries_or_bytes_than_allowed(
    name: PolicyName, trace: list[tuple[int, int]]
) -> None:
    held = policy(name)
    latest: dict[int, bytes] = {}
    for key, size in trace:
        value = latest[key] = bytes([key]) * size
        held.put(key, value)
        assert held.get(key) == (value if size <= BYTES_MAX else None)
        found = {key: held.get(key) for key in latest}
        kept = {key: value for key, value in found.items() if value is not None}
        assert len(kept) == len(held) <= ENTRIES_MAX
        assert sum(map(len, kept.values())) <= BYTES_MAX
        assert all(value == latest[key] for key, value in kept.items())
        assert held.weight <= ENTRIES_MAX * BYTES_MAX


@pytest.mark.parametrize("name", NAMES)
def test_small_entries_fill_every_place(name: PolicyName) -> None:
    held = policy(name)
    for key in range(ENTRIES_MAX):
        held.put(key, bytes(BYTES_MAX // ENTRIES_MAX))
    assert len(held) == ENTRIES_MAX


@pytest.mark.parametrize("name", NAMES)
def test_one_entry_may_take_all_the_bytes(name: PolicyName) -> None:
    held = policy(name)
    for key in range(ENTRIES_MAX):
        held.put(key, b"x")
    held.put(9, bytes(BYTES_MAX))
    assert held.get(9) == bytes(BYTES_MAX)
    assert len(held) == 1


def test_lru_drops_what_was_used_longest_ago_and_lfu_what_was_used_least() -> None:
    for name, gone in (("lru", 0), ("lfu", 4)):
        held = policy(name)
        for key in range(ENTRIES_MAX):
            held.put(key, b"x")
        for key in (0, 0, 0, 1, 2, 3, 4):
            held.get(key)
        for key in (1, 2, 3):
            held.get(key)
        held.put(5, b"x")
        assert held.get(gone) is None, name
        assert len(held) == ENTRIES_MAX
