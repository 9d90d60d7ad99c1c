"""Rows to arrays; the shape that most have is the data set's."""

from dataclasses import replace
from uuid import UUID

import numpy as np
import pytest

from cloud.feedback.data_file import read_rows, write_rows
from cloud.feedback.documents import Label, Source
from cloud.feedback.ranking import Verdict, verdict
from cloud.feedback.reading import StoredRow, decoded_bytes, read, shape_of, usual
from cloud.feedback.teachable import why_not
from shared.wire.envelope import Payload
from shared.wire.pixels import Decoder


def stored(number: int, **changes) -> StoredRow:
    made = {
        "id": UUID(int=number), "device": "cam-1", "site": "", "label": 1, "source": Source.CLOUD,
        "payload": Payload("raw", "uint8", (2, 2), bytes([number] * 4)), "share": 0.5,
        "probabilities": np.array([0.2, 0.8], "<f4").tobytes(), "edge_label": 0, "holdout": False,
        "captured_at": 1.0, "received_at": 2.0,
    }  # fmt: skip
    return StoredRow(**(made | changes))


def test_rows_are_in_the_order_of_their_ids_whatever_they_came_in():
    one, other = stored(1), stored(2)
    first, second = read([one, other], Decoder()), read([other, one], Decoder())
    assert first.rows.ids.tolist() == second.rows.ids.tolist() == [str(one.id), str(other.id)]
    assert first.rows.inputs[1].tolist() == [[2, 2], [2, 2]]


def test_of_nothing_there_is_an_empty_set():
    found = read([], Decoder())
    assert len(found.rows) == 0
    assert found.excluded == {}


def test_the_usual_shape_wins_and_a_tie_is_settled_the_same_way():
    square = stored(1)
    long = stored(2, payload=Payload("raw", "uint8", (4, 1), bytes(4)))
    assert usual([square, long]) == usual([long, square])
    assert usual([square, long, long])[0] == (4, 1)


def test_a_label_outside_of_the_classes_is_left_out():
    found = read([stored(1), stored(2, label=2)], Decoder())
    assert found.excluded == {"label_outside": 1}


def test_a_payload_that_is_not_what_it_states_is_left_out():
    bad = stored(2, payload=Payload("raw", "uint8", (2, 2), b"123"))
    floats = stored(3, payload=Payload("raw", "float32", (2, 2), bytes(16)))
    assert read([stored(1), bad, floats], Decoder()).excluded == {"unreadable": 2}


def test_a_picture_that_came_twice_and_that_people_call_two_things_teaches_nobody():
    picture = Payload("raw", "uint8", (2, 2), b"same")
    first, second, cloud = (
        stored(number, payload=picture, label=label, source=source)
        for number, label, source in (
            (1, 0, Source.PERSON), (2, 1, Source.PERSON), (3, 1, Source.CLOUD),
        )
    )  # fmt: skip
    found = read([stored(4), first, second, cloud], Decoder())
    assert (found.rows.ids.tolist(), found.excluded) == ([str(stored(4).id)], {"contradicted": 3})
    for agreeing in ([first, cloud], [first, replace(second, label=0), cloud]):
        assert read(agreeing, Decoder()).excluded == {}


@pytest.mark.parametrize("first_held", [True, False])
def test_a_picture_that_came_twice_is_on_one_side_of_the_holdout(first_held):
    picture = Payload("raw", "uint8", (2, 2), b"same")
    first, other, again = (
        stored(1, payload=picture, holdout=first_held),
        stored(2, holdout=True),
        stored(3, payload=picture, holdout=not first_held, device="cam-2"),
    )
    found = read([again, other, first], Decoder())
    assert found.rows.holdout.tolist() == [first_held, True, first_held]
    assert found.excluded == {}


def test_bytes_are_those_of_the_arrays():
    assert decoded_bytes([stored(1), stored(2)]) == 2 * (4 + 8)


def test_what_is_no_shape_is_none():
    assert shape_of("28,28") == (28, 28)
    assert shape_of("28,x") == shape_of("") == shape_of("-1,2") == ()


def said(label: int, by: str, at: float) -> Label:
    return Label(label=label, source=Source.PERSON, by=by, at=at)


def test_person_above_cloud_and_people_who_differ_contradict():
    assert verdict([], 4) == Verdict(4, Source.CLOUD)
    assert verdict([said(1, "ada", 1)], 4) == Verdict(1, Source.PERSON)
    split = verdict([said(2, "bob", 2), said(1, "ada", 1)], 4)
    assert split == Verdict(2, Source.PERSON, contradicted=True)
    assert verdict([said(1, "ada", 1), said(1, "bob", 2)], 4).contradicted is False


def test_one_class_outside_of_the_holdout_teaches_nothing():
    labels, none = np.array([0, 0, 1]), np.zeros(3, np.bool_)
    assert why_not(labels, none, {}) == ""
    assert "all 2 rows to train on are of class 0" in why_not(labels, np.array([0, 0, 1], "?"), {})
    assert "all 3 rows are held out" in why_not(labels, ~none, {})
    assert "left out: 5 unsure" in why_not(labels[:0], none[:0], {"unsure": 5})


@pytest.mark.parametrize("share", [5e-324, 1e-300, 1e-46, 0.0009])
def test_a_share_that_float32_does_not_hold_spoils_no_data_set(share):
    found = read([stored(1), stored(2, share=share), stored(3, share=1.0)], Decoder())
    assert found.rows.shares.tolist() == [0.5, np.float32(0.001), 1.0]
    assert len(read_rows(write_rows(found.rows), "it")) == 3
