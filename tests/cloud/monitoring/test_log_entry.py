import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.monitoring.log_entry import LINE_BYTES_MAX, Entry, StageMs, line_of
from tests.cloud.monitoring.entries import ENTRY

TEXT = st.text(st.characters(), max_size=400)


def test_a_line_says_everything() -> None:
    entry = replace(ENTRY, marks=("low_confidence", "out_of_range:input_mean"))
    assert json.loads(line_of(entry)) == {
        "at": "2026-01-01T00:00:00.250+00:00",
        "request_id": "request-1",
        "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
        "caller": "camera-7",
        "model": "tiny-cloud",
        "version": "1.0.0",
        "priority": 1,
        "rows": 1,
        "input_digest": "000102030405060708090a0b0c0d0e0f",
        "label": "class-1",
        "confidence": 0.8765,
        "source": "cloud",
        "error": None,
        "ms": {"network": 0.5, "decode": 0.01, "queue": 1.25, "model": 2.0, "encode": 0.02},
        "marks": ["low_confidence", "out_of_range:input_mean"],
    }


@settings(deadline=None)  # the machine may be busy
@given(TEXT, TEXT, TEXT, st.floats(), st.lists(TEXT, max_size=20))
def test_whatever_a_caller_is_called_it_is_one_bounded_line(
    request_id: str, caller: str, label: str, number: float, marks: list[str]
) -> None:
    line = line_of(
        replace(
            ENTRY, request_id=request_id, caller=caller, label=label, confidence=number,
            stages=StageMs(network=number), marks=tuple(marks),
        )
    )  # fmt: skip
    assert line.isascii()
    assert line.index(b"\n") == len(line) - 1 < LINE_BYTES_MAX
    json.loads(line, parse_constant=pytest.fail)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_json_has_no_number_for_is_null(number: float) -> None:
    entry = replace(ENTRY, confidence=number, stages=StageMs(model=number))
    line = json.loads(line_of(entry))
    assert line["confidence"] is line["ms"]["model"] is None


def test_the_longest_line_is_within_its_bound() -> None:
    long = "\U0001f600" * 1_000
    entry = Entry(
        at=0.0, request_id=long, trace_id=long, caller=long, model=long, version=long, priority=3,
        rows=1, input_digest=bytes(16), label=long, source=long, error=long,
        marks=(long,) * 100,
    )  # fmt: skip
    assert len(line_of(entry)) < LINE_BYTES_MAX
