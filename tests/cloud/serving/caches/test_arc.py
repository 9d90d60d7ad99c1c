import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.serving.caches.arc import Arc
from tests.cloud.serving.caches.paper_arc import PaperArc

TRACE = st.lists(st.integers(0, 24), max_size=300)


def weight_of(value: int) -> int:
    return value


@settings(deadline=None)  # the machine may be busy
@given(st.integers(1, 9), TRACE)
def test_with_pages_of_one_size_each_step_is_the_papers(capacity: int, trace: list[int]) -> None:
    follow_the_paper(capacity, trace)


@pytest.mark.parametrize("capacity", [2, 5, 16])
def test_also_on_long_traces_that_change_their_mind(capacity: int) -> None:
    """Popular pages, loops and scans in turn move the target up and down, all the way."""
    rng = np.random.default_rng(capacity)
    trace: list[int] = []
    for turn in range(60):
        popular = rng.geometric(1 / capacity, 5 * capacity)
        loop = np.arange(3 * capacity) % (capacity + 1 + turn % capacity) + 1_000
        scan = np.arange(capacity) + 10_000 * (turn + 1)
        trace += [int(page) for part in (popular, loop, popular, scan) for page in part]
    follow_the_paper(capacity, trace)


def follow_the_paper(capacity: int, trace: list[int]) -> None:
    paper, arc = PaperArc(capacity), Arc[int, int](capacity, lambda _: 1)
    for page in trace:
        hit = arc.get(page) is not None
        assert hit == paper.request(page)
        if not hit:
            arc.put(page, page)
        assert list(arc._recent) == paper.t1
        assert list(arc._frequent) == paper.t2
        assert list(arc._recent_gone) == paper.b1
        assert list(arc._frequent_gone) == paper.b2
        assert arc._target == paper.p


@settings(deadline=None)  # the machine may be busy
@given(
    st.integers(1, 40), st.lists(st.tuples(st.integers(0, 20), st.integers(1, 45)), max_size=300)
)
def test_whatever_the_weights_no_list_is_over_its_bound(
    capacity: int, trace: list[tuple[int, int]]
) -> None:
    arc = Arc[int, int](capacity, weight_of)
    for key, weight in trace:
        if weight % 3 and arc.get(key) is not None:
            continue
        arc.put(key, weight)
        assert (arc.get(key) == weight) == (weight <= capacity)
        lists = (arc._recent, arc._frequent, arc._recent_gone, arc._frequent_gone)
        assert [one.weight for one in lists] == [sum(w for _, w in one.values()) for one in lists]
        keys = [key for one in lists for key in one]
        assert len(keys) == len(set(keys))
        recent, frequent, recent_gone, frequent_gone = (one.weight for one in lists)
        assert recent + frequent == arc.weight <= capacity
        assert recent + recent_gone <= capacity
        assert recent + frequent + recent_gone + frequent_gone <= 2 * capacity
        assert 0 <= arc._target <= capacity


def test_what_came_twice_outlives_a_scan() -> None:
    arc = Arc[int, int](10, lambda _: 1)
    for page in (1, 2, 3):
        arc.put(page, page)
        assert arc.get(page) == page
    for page in range(100, 200):
        arc.put(page, page)
    assert [arc.get(page) for page in (1, 2, 3)] == [1, 2, 3]
    assert len(arc) == 10


def test_a_heavy_one_that_comes_back_may_push_out_what_recency_had_won() -> None:
    arc = Arc[str, int](10, weight_of)
    arc.put("a", 8)
    arc._target = 10.0
    arc._recent_gone.add("b", None, 2)
    arc.put("b", 5)  # `a` is within the target, but there is nothing else to push out
    assert (arc.get("a"), arc.get("b")) == (None, 5)


def test_ghosts_make_room_for_one_that_comes_back_heavier() -> None:
    arc = Arc[str, int](10, weight_of)
    arc.put("a", 10)
    arc.get("a")
    arc._recent_gone.add("b", None, 1)
    arc._recent_gone.add("c", None, 4)
    arc._frequent_gone.add("d", None, 5)
    arc.put("b", 9)
    assert arc.get("b") == 9
    assert arc._total <= 20


def test_a_value_over_the_capacity_is_not_held_and_neither_is_the_one_that_it_replaces() -> None:
    arc = Arc[str, int](10, weight_of)
    arc.put("a", 4)
    arc.put("a", 11)
    assert arc.get("a") is None
    assert arc.weight == 0


def test_the_newer_value_is_held() -> None:
    arc = Arc[str, int](10, weight_of)
    arc.put("a", 4)
    arc.put("a", 5)
    assert (arc.get("a"), arc.weight) == (5, 5)
