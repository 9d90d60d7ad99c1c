import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.registry.catalog.bounds import DEPTH_MAX, ENTRY_BYTES_MAX, check_tree
from cloud.registry.catalog.chain import (
    EMPTY,
    PROMOTED,
    canonical,
    entry_after,
    hash_of,
    head_of,
    verify_chain,
)
from cloud.registry.documents import Entry, Head
from shared.errors import Conflict, Malformed, NotTrusted, TooLarge

TREES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


def chain(length: int, epoch: int = 1) -> list[Entry]:
    entries: list[Entry] = []
    head = EMPTY
    for number in range(length):
        entry = entry_after(head, epoch, 5.0 + number, "ann", "model.set", {"model": f"m{number}"})
        entries.append(entry)
        head = head_of(entry)
    return entries


def test_a_chain_is_walked_to_its_head():
    entries = chain(5)
    assert verify_chain(EMPTY, entries) == head_of(entries[-1])
    assert verify_chain(head_of(entries[2]), entries[3:]) == head_of(entries[-1])


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("actor", "eve"), ("at", 99.0), ("kind", "version.approved"), ("change", {"model": "x"}),
        ("epoch", 2), ("seq", 3), ("previous", "1" * 64), ("sha256", "2" * 64),
    ],
)  # fmt: skip
def test_an_entry_altered_in_any_member_is_found(member, value):
    entries = chain(3)
    entries[1] = entries[1].model_copy(update={member: value})
    with pytest.raises(NotTrusted, match="was altered"):
        verify_chain(EMPTY, entries)


def test_an_altered_entry_with_its_hash_made_anew_is_found_by_the_one_after_it():
    entries = chain(3)
    forged = entries[1].model_copy(update={"actor": "eve"})
    entries[1] = forged.model_copy(update={"sha256": hash_of(forged)})
    with pytest.raises(Conflict, match=r"log entry 3 follows another entry 2 .* forked"):
        verify_chain(EMPTY, entries)


def test_a_missing_entry_is_a_gap():
    entries = chain(3)
    with pytest.raises(Conflict, match="log entry 3 comes after 1: entries between are missing"):
        verify_chain(EMPTY, [entries[0], entries[2]])


def test_an_epoch_never_falls():
    entries = chain(2)
    head = head_of(entries[0]).model_copy(update={"epoch": 3})
    with pytest.raises(Conflict, match="of epoch 1 after 3"):
        verify_chain(head, entries[1:])


def test_an_epoch_begins_with_a_promotion_and_with_nothing_else():
    head = head_of(chain(1)[0])
    promoted = entry_after(head, 2, 9.0, "ann", PROMOTED, {"epoch": 2, "comment": ""})
    assert verify_chain(head, [promoted]).epoch == 2
    other = entry_after(head, 2, 9.0, "ann", "model.set", {"model": "m"})
    with pytest.raises(Conflict, match="an epoch begins with a promotion"):
        verify_chain(head, [other])


@given(st.dictionaries(st.text(), TREES, max_size=4), st.floats(0, 1e12))
def test_an_entry_that_travelled_as_json_has_the_hash_that_it_had(change, at):
    try:
        entry = entry_after(EMPTY, 1, at, "ann", "model.set", change)
    except (Malformed, TooLarge):
        return
    travelled = Entry.model_validate_json(json.dumps(json.loads(entry.model_dump_json()), indent=2))
    assert verify_chain(EMPTY, [travelled]) == Head(epoch=1, seq=1, sha256=entry.sha256)
    assert json.loads(canonical(entry.change)) == change


@given(TREES)
def test_what_the_bounds_take_can_be_written_and_what_they_refuse_is_said(tree):
    try:
        check_tree(tree, "it")
    except (Malformed, TooLarge):
        return
    canonical(tree)


@pytest.mark.parametrize("bad", ["\x00", "a\x1b[31m", "\x7f", "\x9b", "\ud800", "\u0085"])
def test_control_characters_and_halves_of_characters_are_refused(bad):
    for tree in (bad, {"a": [bad]}, {bad: 1}):
        with pytest.raises(Malformed, match=r"control character U\+"):
            check_tree(tree, "it")


def test_plain_text_of_many_lines_and_tongues_is_taken():
    check_tree({"comment": "Zeile\n\tzwei\r\n\u4e09 \U0001f600 e\u0301"}, "it")


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**400])
def test_integers_that_another_parser_would_round_are_refused(number):
    with pytest.raises(Malformed, match="over 64 bits"):
        check_tree([number], "it")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_has_not_are_refused(number):
    with pytest.raises(Malformed, match="which JSON has not"):
        check_tree([number], "it")


def test_a_tree_that_is_too_deep_is_refused_without_recursion():
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(TooLarge, match=f"nested over {DEPTH_MAX} deep"):
        check_tree(deep, "it")
    while deep:  # freed by hand: the interpreter would recurse
        deep = deep.pop()


def test_a_tree_of_too_many_values_is_refused():
    with pytest.raises(TooLarge, match="more than 20000 values"):
        check_tree([[0] * 200 for _ in range(200)], "it")


def test_a_change_of_too_many_bytes_is_refused():
    with pytest.raises(TooLarge, match="keep long metadata in an artifact"):
        entry_after(EMPTY, 1, 1.0, "ann", "model.set", {"model": "x" * ENTRY_BYTES_MAX})
