"""Deltas of any bytes make what they should, and those of fine-tuned models are short."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.registry.deltas.alignment import align
from cloud.registry.deltas.encoder import compressed_bytes, encode, worth_it
from shared.delta.decoder import Operation, apply
from tests.cloud.registry.deltas.models import int8, model

RNG = np.random.default_rng(3)
NOISE = RNG.bytes(30_000)


def share(old: bytes, new: bytes) -> float:
    """Of the whole file, compressed; and it makes that file."""
    delta = encode(old, new)
    sha256 = hashlib.sha256(new).hexdigest()
    assert apply(old, delta, bytes_max=len(new), sha256=sha256) == new
    return len(delta) / compressed_bytes(new)


@settings(deadline=None)
@given(st.binary(max_size=600), st.binary(max_size=600))
def test_any_two_files(old: bytes, new: bytes) -> None:
    share(old, new)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 90), st.integers(0, 2)), max_size=4),
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 90), st.integers(0, 2)), max_size=4),
    st.tuples(st.text(max_size=50), st.text(max_size=50)),
)
def test_any_two_models(
    old: list[tuple[str, int, int]], new: list[tuple[str, int, int]], docs: tuple[str, str]
) -> None:
    before, after = (
        model({name: int8(seed, size) for name, size, seed in parts}, doc=doc)
        for parts, doc in zip((old, new), docs, strict=True)
    )
    share(before, after)


def test_a_file_of_itself() -> None:
    assert share(NOISE, NOISE) < 0.01


def test_bytes_put_in_or_taken_out_anywhere() -> None:
    for new in (b"x" * 50 + NOISE, NOISE + b"x" * 50, NOISE[:9000] + b"x" * 50 + NOISE[9000:]):
        assert share(NOISE, new) < 0.02
        assert share(new, NOISE) < 0.02


def test_weights_that_moved_a_little() -> None:
    old = {f"w{n}": int8(n, 100, 90) for n in range(4)}
    new = {n: (w + RNG.integers(-1, 2, w.shape)).astype(np.int8) for n, w in old.items()}
    assert share(model(old), model(new)) < 0.3


def test_weights_in_another_order_with_others_between() -> None:
    a, b, c = int8(1, 9000), int8(2, 9000), int8(3, 500)
    old = model({"a": a, "b": b, "small": int8(4, 10)})
    new = model({"b": b, "c": c, "small": int8(5, 12), "a": a}, doc="of another length")
    assert share(old, new) < 0.08
    assert share(new, old) < 0.04


def test_a_classifier_that_got_a_class_more() -> None:
    body, head = int8(1, 20_000), int8(2, 10, 500)
    grown = np.concatenate([head, int8(3, 1, 500)])
    old, new = model({"body": body, "head": head}), model({"body": body, "head": grown})
    assert share(old, new) < 0.06
    assert share(new, old) < 0.04


def test_a_retrained_model_is_sent_whole() -> None:
    delta = share(model({"a": int8(1, 30_000)}), model({"a": int8(2, 30_000)}))
    assert delta > 0.95
    assert not worth_it(int(delta * 1000), 1000)


def test_published_below_six_tenths() -> None:
    assert worth_it(599, 1000)
    assert not worth_it(600, 1000)


def test_one_operation_where_the_layout_is_the_same() -> None:
    old = model({f"w{n}": int8(n, 500) for n in range(9)})
    new = model({f"w{n}": int8(n + 1, 500) for n in range(9)})
    assert align(old, new) == [Operation(0, len(new))]


@pytest.mark.parametrize(("old", "new"), [(b"", b""), (b"", b"ab"), (b"ab", b"")])
def test_empty_files(old: bytes, new: bytes) -> None:
    assert align(old, new) == ([Operation(None, len(new))] if new else [])
    share(old, new)


def test_same_files_same_delta() -> None:
    old, new = model({"a": int8(1, 900)}), model({"a": int8(2, 900)})
    assert encode(old, new) == encode(old, new)
