"""Weights are found where they lie; what is no ONNX file has no layout."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.registry.deltas import onnx_layout
from cloud.registry.deltas.onnx_layout import weights
from tests.cloud.registry.deltas.models import int8, model


def test_initializers_by_name() -> None:
    values = {"a": int8(1, 20, 30), "b": int8(2, 64).astype(np.float32)}
    content = model(values)
    assert {w.name: content[w.start : w.end] for w in weights(content)} == {
        b"/a": values["a"].tobytes(),
        b"/b": values["b"].tobytes(),
    }


def test_constants_inside_nested_graphs_have_names_of_their_own() -> None:
    content = model({"a": int8(1, 40)}, {"k": int8(2, 50)}, depth=2)
    found = {w.name: content[w.start : w.end] for w in weights(content)}
    assert len(found) == 5  # the initializer, and two branches in each of two branches
    assert list(found.values()).count(int8(2, 50).tobytes()) == 4


def test_weights_too_small_to_be_worth_an_operation() -> None:
    assert weights(model({"a": int8(1, 31)})) == []
    assert len(weights(model({"a": int8(1, 32)}))) == 1


def test_graphs_nested_too_deeply() -> None:
    assert len(weights(model({"a": int8(1, 40)}, depth=7))) == 1
    assert weights(model({"a": int8(1, 40)}, depth=8)) == []


def test_endless_names_are_cut_before_they_are_repeated() -> None:
    content = model({"n" * 100_000: int8(1, 40)}, {"k" * 100_000: int8(2, 40)}, depth=3)
    assert max(len(weight.name) for weight in weights(content)) < 5_000


def test_too_many_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    content = model({"a": int8(1, 40)})
    monkeypatch.setattr(onnx_layout, "_FIELDS_MAX", 5)
    assert weights(content) == []


def test_too_many_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    content = model({"a": int8(1, 40), "b": int8(1, 40)})
    monkeypatch.setattr(onnx_layout, "TENSORS_MAX", 1)
    assert weights(content) == []


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_cut_file_has_no_layout(cut: int) -> None:
    assert weights(model({"a": int8(1, 200)})[:-cut]) == []


@given(st.binary(max_size=300))
def test_any_bytes_are_walked(content: bytes) -> None:
    for weight in weights(content):
        assert 0 <= weight.start < weight.end <= len(content)


GOOD = model({"a": int8(1, 40), "b": int8(2, 40)}, {"k": int8(3, 40)})


@given(st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=5))
def test_mutated_files_have_weights_that_do_not_overlap(mutations: list[tuple[int, int]]) -> None:
    content = bytearray(GOOD)
    for at, value in mutations:
        content[at] = value
    end = 0
    for weight in weights(bytes(content)):
        assert end <= weight.start < weight.end <= len(content)
        end = weight.end
