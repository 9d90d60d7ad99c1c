"""Padded or split, a batch is answered as its rows are alone.

Tolerances are absolute, of logits that lie between -7 and 19. Engines choose other kernels for
other sizes, and so add up in another order: fp32 then differs in its last digits. int8 adds up
whole numbers, in any order the same, before its few fp32 operations.
"""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.serving.model import Predictor
from cloud.serving.padding import Part, parts, powers_of_two, sizes_for
from shared.bundle.reader import open_bundle
from shared.engines.engine import Absent, OpenOptions
from shared.engines.known import known_engines

TOLERANCE = {"fp32": 1e-4, "int8": 1e-4}
SIZE_MAX = 32
FASHION_CLOUD = Path(__file__).parents[3] / "models" / "fashion-cloud"
BUNDLE = open_bundle(FASHION_CLOUD)
VARIANTS = {variant.key: variant for variant in BUNDLE.manifest.variants}


def plan(rows: int, *sizes: int) -> list[tuple[int, int]]:
    """Real rows and size of each part."""
    return [(part.rows, part.size) for part in parts(rows, sizes)]


def test_without_fixed_sizes_a_batch_runs_as_it_is() -> None:
    assert list(parts(13, ())) == [Part(0, 13, 13)]


def test_a_batch_is_padded_while_that_computes_little_more() -> None:
    assert plan(8, 1, 2, 4, 8) == [(8, 8)]
    assert plan(6, 1, 2, 4, 8) == [(6, 8)]
    assert plan(3, 1, 2, 4, 8) == [(3, 4)]


def test_and_split_where_padding_would_compute_more() -> None:
    assert plan(5, 1, 2, 4, 8) == [(4, 4), (1, 1)]
    assert plan(17, 1, 2, 4, 8, 16, 32) == [(16, 16), (1, 1)]
    assert plan(19, 1, 2, 4, 8, 16, 32) == [(16, 16), (3, 4)]


def test_powers_of_two_end_with_the_largest_size() -> None:
    assert powers_of_two(1) == (1,)
    assert powers_of_two(8) == (1, 2, 4, 8)
    assert powers_of_two(24) == (1, 2, 4, 8, 16, 24)


def test_only_gpus_get_fixed_sizes() -> None:
    assert sizes_for("onnxruntime", gpu=False, size_max=8) == ()
    assert sizes_for("openvino", gpu=False, size_max=8) == ()
    assert sizes_for("triton", gpu=True, size_max=8) == ()
    for engine in ("onnxruntime", "openvino", "tensorrt"):
        assert sizes_for(engine, gpu=True, size_max=8) == (1, 2, 4, 8)


@given(st.integers(1, 200), st.integers(1, 64))
def test_parts_cover_every_row_once_in_allowed_sizes_and_waste_little(
    rows: int, size_max: int
) -> None:
    sizes = powers_of_two(size_max)
    found = list(parts(rows, sizes))
    assert [part.start for part in found] == [
        sum(before.rows for before in found[:n]) for n in range(len(found))
    ]
    assert sum(part.rows for part in found) == rows
    assert all(part.size in sizes and 0 < part.rows <= part.size for part in found)
    assert all(part.rows == part.size for part in found[:-1])
    assert sum(part.size for part in found) <= max(1.5 * rows, size_max * -(-rows // size_max))


class Recorder:
    """A session whose answer to a row is the sum of its pixels; remembers what it was given."""

    inputs = outputs = ()

    def __init__(self) -> None:
        self.given: list[np.ndarray] = []

    def run(self, batch: np.ndarray) -> np.ndarray:
        self.given.append(batch.copy())
        return batch.reshape(len(batch), -1).sum(axis=1, keepdims=True, dtype=np.float32)

    def close(self) -> None:
        pass


def test_padding_rows_are_zero_whatever_ran_before_and_their_answers_never_leave() -> None:
    session = Recorder()
    predict = Predictor(session, np.zeros((8, 2), np.float32), (1, 2, 4, 8), 1.0)
    predict([np.full((8, 2), 7, np.float32)])
    answers = predict([np.full((3, 2), 1, np.float32), np.full((3, 2), 2, np.float32)])
    assert answers.logits.tolist() == [[2], [2], [2], [4], [4], [4]]
    assert len(answers.probabilities) == 6
    assert session.given[1].tolist() == [[1, 1]] * 3 + [[2, 2]] * 3 + [[0, 0]] * 2


@pytest.mark.parametrize("sizes", [(), powers_of_two(SIZE_MAX)], ids=["any", "fixed"])
@pytest.mark.parametrize("key", VARIANTS)
def test_every_batch_size_answers_as_batch_one_does(key: str, sizes: tuple[int, ...]) -> None:
    variant = VARIANTS[key]
    engine = next(e for e in known_engines() if e.name == variant.engine)
    if isinstance(found := engine.probe(), Absent):
        pytest.skip(found.reason)
    session = engine.open(BUNDLE.read(variant.file), OpenOptions(batch_max=SIZE_MAX))
    rows = BUNDLE.golden.inputs[:SIZE_MAX]
    alone = np.concatenate([session.run(row[None]) for row in rows])
    predict = Predictor(session, np.zeros_like(rows), sizes, 1.0)
    worst = 0.0
    for size in range(1, SIZE_MAX + 1):
        jobs = [rows[: size // 2], rows[size // 2 : size]] if size > 1 else [rows[:1]]
        answers = predict(jobs).logits
        assert answers.shape == (size, 10)
        worst = max(worst, float(np.abs(answers - alone[:size]).max()))
    session.close()
    print(f"{key}: {worst:.2g}")
    assert worst <= TOLERANCE[variant.precision]
