import numpy as np
import pytest

from cloud.serving.failed_batch import sort_out
from cloud.serving.job import Job, Rows
from shared.errors import DeadlineMissed, Disconnected, Malformed, Overloaded, Unavailable

BAD = Malformed("row 0")


def job(*values: object, dtype: str = "float32") -> Job:
    rows: Rows = np.array(values, dtype)
    return Job(rows, 1.0)


def test_senders_of_nan_are_told_and_the_others_go_together() -> None:
    a, b, c = job(1.0), job(2.0, np.nan), job(3.0)
    failed = sort_out([a, b, c], BAD)
    assert failed.again == ([a, c],)
    ((told, error),) = failed.told
    assert told is b
    assert str(error) == "the input holds NaN or an infinity; send finite numbers"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_where_all_sent_such_values_nobody_runs_again(value: float) -> None:
    failed = sort_out([job(value), job(value)], BAD)
    assert len(failed.told) == 2
    assert failed.again == ()
    assert sort_out([job(value)], BAD).again == ()


@pytest.mark.parametrize("dtype", ["uint8", "int64", "object"])
def test_values_of_another_kind_are_always_finite(dtype: str) -> None:
    a, b = job(1, dtype=dtype), job(2, dtype=dtype)
    failed = sort_out([a, b], BAD)
    assert (failed.told, failed.again) == ((), ([a], [b]))


@pytest.mark.parametrize("error", [Unavailable("the engine"), ZeroDivisionError(), BAD])
def test_who_is_to_blame_otherwise_is_found_one_by_one(error: Exception) -> None:
    a, b = job(1.0), job(2.0)
    failed = sort_out([a, b], error)
    assert (failed.told, failed.again) == ((), ([a], [b]))
    assert sort_out([a], error).told == ((a, error),)
    assert sort_out([a], error).again == ()


@pytest.mark.parametrize("error", [Disconnected(""), Overloaded(""), DeadlineMissed("")])
def test_another_machine_s_trouble_is_nobody_s_fault(error: Exception) -> None:
    a, b = job(np.nan), job(2.0)
    failed = sort_out([a, b], error)
    assert failed.told == ((a, error), (b, error))
    assert failed.again == ()
