import hashlib

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from cloud.serving.caches.content import digest_of
from cloud.serving.caches.metrics import CacheMetrics
from cloud.serving.caches.result_cache import ResultCache
from cloud.serving.caches.settings import ResultCacheSettings
from cloud.serving.job import Calibrated, Outputs, Rows
from tests.tiny_bundle import sure_image

MODEL = ("tiny-cloud", "1.0.0")
ROWS = sure_image(1)[None]


def cache(**settings: object) -> ResultCache:
    return ResultCache(ResultCacheSettings.model_validate({"policy": "arc"} | settings))


def outputs(value: float, rows: int = 1) -> Outputs:
    logits = np.full((rows, 3), value, np.float32)
    return Outputs(logits, Calibrated(logits, 1.0))


def kept(made: ResultCache, rows: Rows = ROWS, value: float = 1.0, now: float = 0.0) -> None:
    key = made.key(*MODEL, rows)
    assert key is not None
    made.keep(key, outputs(value, len(rows)), now)


def found(
    made: ResultCache, rows: Rows = ROWS, now: float = 0.0, version: str = "1.0.0"
) -> float | None:
    key = made.key(MODEL[0], version, rows)
    assert key is not None
    answer = made.fresh(key, now)
    return None if answer is None else float(answer.logits[0, 0])


def test_the_same_rows_get_the_same_answer() -> None:
    made = cache()
    assert found(made) is None
    kept(made, value=7.0)
    assert found(made, ROWS.copy()) == 7.0
    assert (made.look_ups.fresh, made.look_ups.missed) == (1, 1)


def test_one_pixel_another_shape_or_another_dtype_is_another_input() -> None:
    made = cache()
    kept(made)
    other = ROWS.copy()
    other[0, 0, 0] ^= 1
    for rows in (other, ROWS.reshape(1, 2, 8), ROWS.view(np.int8), np.concatenate([ROWS, ROWS])):
        assert found(made, rows) is None


def test_rows_that_do_not_lie_in_one_piece_are_known_by_their_content() -> None:
    made = cache()
    kept(made, np.ascontiguousarray(ROWS.transpose(0, 2, 1)), value=3.0)
    assert not ROWS.transpose(0, 2, 1).flags.c_contiguous
    assert found(made, ROWS.transpose(0, 2, 1)) == 3.0


def test_a_new_version_never_gets_the_old_ones_answer() -> None:
    made = cache()
    kept(made)
    assert found(made, version="1.0.1") is None
    key = made.key(MODEL[0], "1.0.1", ROWS)
    assert key is not None
    assert made.stale(key, 0.0) is None


def test_a_version_that_is_loaded_anew_gets_nothing_from_before_not_even_what_is_under_way() -> (
    None
):
    made = cache()
    kept(made)
    under_way = made.key(*MODEL, ROWS)
    made.forget(*MODEL)
    assert found(made) is None
    assert under_way is not None
    made.keep(under_way, outputs(2.0), 0.0)
    assert found(made) is None


def test_an_answer_is_fresh_then_stale_then_gone() -> None:
    made = cache(fresh_s=10, stale_s=100)
    kept(made, now=5.0)
    key = made.key(*MODEL, ROWS)
    assert key is not None
    assert made.fresh(key, 15.0) is not None
    assert made.fresh(key, 15.1) is None
    assert made.stale(key, 105.0) is not None
    assert made.stale(key, 105.1) is None
    assert (made.look_ups.stale, made.look_ups.stale_missed) == (1, 1)


def test_what_is_kept_is_a_copy_that_nobody_can_change() -> None:
    made = cache()
    batch = outputs(1.0, rows=32)
    key = made.key(*MODEL, ROWS)
    assert key is not None
    made.keep(key, batch[3:4], 0.0)
    batch.logits[...] = 9.0
    answer = made.fresh(key, 0.0)
    assert answer is not None
    assert answer.logits.base is None  # the batch's arrays are not kept alive
    assert answer.logits[0, 0] == 1.0
    for array in (answer.logits, answer.probabilities):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 5.0


def test_a_cache_that_is_off_and_row_sets_that_are_large_cost_no_hash() -> None:
    assert cache(policy="off").key(*MODEL, ROWS) is None
    large = np.repeat(ROWS, 9, axis=0)
    assert cache(rows_max=8).key(*MODEL, large) is None
    assert cache(rows_max=9).key(*MODEL, large) is not None
    assert cache(input_bytes_max=ROWS.nbytes).key(*MODEL, ROWS) is not None
    assert cache(input_bytes_max=ROWS.nbytes - 1).key(*MODEL, ROWS) is None


def test_memory_is_bounded_by_bytes_of_whole_entries() -> None:
    made = cache(bytes_max=10_000)
    for label in range(200):
        kept(made, np.full((1, 4, 4), label, np.uint8))
    assert len(made) == 10_000 // (2 * 12 + 800)


def test_a_digest_is_what_sha256sum_prints() -> None:
    assert hashlib.sha256(ROWS.tobytes()).hexdigest().startswith(digest_of(ROWS).hex())


def test_figures() -> None:
    made, registry = cache(), CollectorRegistry()
    CacheMetrics({"result": made}, registry)
    kept(made)
    found(made)
    text = generate_latest(registry).decode()
    assert 'hybridge_cache_lookups_total{cache="result",outcome="fresh"} 1.0' in text
    assert 'hybridge_cache_entries{cache="result"} 1.0' in text


def test_stale_is_at_least_fresh() -> None:
    with pytest.raises(ValueError, match="stale_s 5 is below fresh_s 60"):
        ResultCacheSettings(stale_s=5)
