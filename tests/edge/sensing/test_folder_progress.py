"""Which files are complete, which were read: without a disk."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.sensing.folder_progress import (
    INSTANT_NAMES_MAX,
    Entry,
    Latest,
    Mark,
    complete,
)
from shared.errors import Malformed

ENTRIES = st.lists(
    st.builds(Entry, st.integers(0, 5), st.text(max_size=3), st.integers(0, 2)), max_size=30
)


@given(ENTRIES, st.integers(0, 30))
def test_a_mark_covers_what_it_passed_and_its_text_says_the_same(
    entries: Sequence[Entry], cut: int
) -> None:
    ordered = sorted(entries)
    mark = Mark().past(ordered[:cut]).past(ordered[:cut])
    assert all(mark.covers(entry) for entry in ordered[:cut])
    names = {(entry.changed_ns, entry.name) for entry in ordered[:cut]}
    assert not any(
        mark.covers(entry) for entry in ordered[cut:] if (entry.changed_ns, entry.name) not in names
    )
    assert Mark.parse(mark.text()) == mark


def test_a_name_of_the_same_instant_that_comes_later_is_not_covered() -> None:
    mark = Mark().past([Entry(7, "b", 1), Entry(7, "c", 1)])
    assert not mark.covers(Entry(7, "a", 1))
    assert mark.covers(Entry(6, "z", 1))
    assert not mark.covers(Entry(8, "b", 1))


def test_a_crowd_in_one_instant_is_all_covered_and_the_cursor_stays_small() -> None:
    crowd = [Entry(7, f"{n:05}".rjust(127, "é"), 1) for n in range(1000)]
    mark = Mark().past(crowd)
    assert all(mark.covers(entry) for entry in crowd)
    assert len(mark.names) == INSTANT_NAMES_MAX
    assert len(mark.text().encode()) < 64 * 1024
    assert Mark.parse(mark.text()) == mark


@given(ENTRIES)
def test_latest_covers_exactly_the_last_chunk(entries: Sequence[Entry]) -> None:
    latest = Latest().past([Entry(1, "old", 1)]).past(entries)
    assert all(latest.covers(entry) for entry in entries)
    assert not latest.covers(Entry(1, "old", 1))
    assert Latest.parse(latest.text()) == latest


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[1,"a",""]', "[1,[2],3]", "[" * 99_999, "null"])
def test_damaged_cursors(text: str) -> None:
    with pytest.raises(Malformed):
        Mark.parse(text)
    with pytest.raises(Malformed):
        Latest.parse(text if text != "[1,[2],3]" else json.dumps([["a", 1, 2]]))


def test_complete_is_what_stood_still_up_to_the_first_that_did_not() -> None:
    a, b, c = Entry(1, "a", 5), Entry(2, "b", 5), Entry(3, "c", 5)
    assert complete([a, b, c], frozenset()) == []
    assert complete([a, b, c], frozenset({a, b, c})) == [a, b, c]
    assert complete([a, Entry(2, "b", 6), c], frozenset({a, b, c})) == [a]  # b grew
    assert complete([a, c, Entry(4, "b", 6)], frozenset({a, b, c})) == [a, c]
