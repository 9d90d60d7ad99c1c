"""Covering and overlapping filters, against every topic of a small alphabet."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.broker.access.filters import covers, overlaps
from cloud.broker.codec.topics import is_filter, matches

# "z" stands in no filter: it is what only a wildcard matches; one level more than filters have
TOPICS = [
    "/".join(levels)
    for count in range(1, 5)
    for levels in itertools.product(["a", "b", "", "$x", "z"], repeat=count)
    if levels != ("",)
]
filters = st.lists(st.sampled_from(["a", "b", "", "$x", "+"]), max_size=3).flatmap(
    lambda found: st.sampled_from(["/".join(found), "/".join([*found, "#"])])
).filter(bool)  # fmt: skip


@settings(deadline=None)
@given(filters, filters)
def test_covers_says_exactly_that_no_topic_of_the_one_escapes_the_other(
    broad: str, narrow: str
) -> None:
    escaped = [one for one in TOPICS if matches(narrow, one) and not matches(broad, one)]
    assert covers(broad, narrow) == (not escaped), escaped[:3]


@settings(deadline=None)
@given(filters, filters)
def test_overlaps_says_exactly_that_some_topic_is_in_both(one: str, other: str) -> None:
    shared = [topic for topic in TOPICS if matches(one, topic) and matches(other, topic)]
    assert overlaps(one, other) == bool(shared), shared[:3]


any_filters = st.text(st.sampled_from("ab/+#$ é"), min_size=1, max_size=8).filter(is_filter)
any_topics = st.text(st.sampled_from("ab/$ é"), min_size=1, max_size=8)


@settings(deadline=None)
@given(any_filters, any_filters, any_topics)
def test_any_topic_obeys_both(one: str, other: str, topic: str) -> None:
    if covers(one, other) and matches(other, topic):
        assert matches(one, topic)
    if matches(one, topic) and matches(other, topic):
        assert overlaps(one, other)


@settings(deadline=None)
@given(any_filters, any_filters, any_filters)
def test_covering_is_an_order_and_overlapping_has_no_sides(one: str, two: str, three: str) -> None:
    assert covers(one, one)
    assert overlaps(one, one)
    assert overlaps(one, two) == overlaps(two, one)
    if covers(one, two):
        assert overlaps(one, two)
        if covers(two, three):
            assert covers(one, three)


@pytest.mark.parametrize(
    ("broad", "narrow"),
    [("a/#", "a"), ("a/#", "a/b/#"), ("a/#", "a/+"), ("#", "+/#"), ("+/#", "#"), ("a/+", "a/"),
     ("$SYS/#", "$SYS/+/x"), ("+/+", "/"),
     ("/+/#", "/#"), ("/#", "/+/#")],
)  # fmt: skip
def test_covered(broad: str, narrow: str) -> None:
    assert covers(broad, narrow)


@pytest.mark.parametrize(
    ("broad", "narrow"),
    [("a/b", "a/+"), ("a/+", "a/#"), ("a/+", "a"), ("#", "$SYS/a"), ("+/a", "$SYS/a"),
     ("$SYS/#", "#"), ("a", "a/b"), ("a/b/#", "a/#"), ("+/+/#", "#")],
)  # fmt: skip
def test_not_covered(broad: str, narrow: str) -> None:
    assert not covers(broad, narrow)


@pytest.mark.parametrize(
    ("one", "other", "is_shared"),
    [("a/#", "a", True), ("a/+/c", "+/b/#", True), ("#", "$SYS/a", False), ("a/+", "a", False),
     ("+/a", "$SYS/a", False), ("a/b", "a/c", False), ("a/b/#", "a", False), ("#", "+", True),
     ("/#", "+", False)],
)  # fmt: skip
def test_overlapping(one: str, other: str, is_shared: bool) -> None:
    assert overlaps(one, other) is is_shared
