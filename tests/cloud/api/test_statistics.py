import pytest

from cloud.api import statistics
from cloud.api.schemas import Duration
from cloud.api.statistics import CallStatistics

STAGES = {"total_s": 0.5, "decode_s": 0.125, "queue_s": 0.0625, "run_s": 0.25, "encode_s": 0.03125}


def counted(source: str, times: int) -> CallStatistics:
    found = CallStatistics(wall=lambda: 1_800_000_000.5)
    for _ in range(times):
        found.answered("m", "1", source, 1, 4, **STAGES)
    return found


def test_counts_and_nanoseconds() -> None:
    told = counted("cloud", 2).of("m", "1", batches=1)
    assert (told.inference_count, told.execution_count, told.last_inference) == (
        8, 1, 1_800_000_000_500,
    )  # fmt: skip
    stats = told.inference_stats
    assert stats.success == Duration(count=2, ns=1_000_000_000)
    assert stats.compute_input == Duration(count=2, ns=250_000_000)
    assert stats.queue == Duration(count=2, ns=125_000_000)
    assert stats.compute_infer == Duration(count=2, ns=500_000_000)
    assert stats.compute_output == Duration(count=2, ns=62_500_000)
    assert stats.fail == stats.cache_hit == Duration()


def test_an_answer_from_the_cache_ran_nothing() -> None:
    stats = counted("cache", 3).of("m", "1", batches=0).inference_stats
    assert stats.cache_hit.count == stats.success.count == 3
    assert stats.compute_infer == stats.queue == Duration()


def test_failures_are_counted_apart_and_a_model_nobody_asked_is_all_zeros() -> None:
    found = counted("cloud", 1)
    found.failed("m", "1", 0.25)
    assert found.of("m", "1", 0).inference_stats.fail == Duration(count=1, ns=250_000_000)
    assert found.of("m", "2", 0).inference_stats.success == Duration()


def test_names_do_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "_MODELS_MAX", 3)
    found = CallStatistics()
    for number in range(10):
        found.failed(f"m{number}", "1", 1.0)
    assert len(found._models) == 3
    assert found.of("m9", "1", 0).inference_stats.fail.count == 1
