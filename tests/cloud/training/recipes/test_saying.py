import math
from pathlib import Path

import pytest

from cloud.training.child_messages import LINE_BYTES_MAX, MESSAGES, Made, Message
from cloud.training.recipes.saying import Saying, StopAsked


def heard() -> tuple[Saying, list[bytes]]:
    lines: list[bytes] = []
    return Saying(lines.append), lines


def read(lines: list[bytes]) -> list[Message]:
    return [MESSAGES.validate_json(line) for line in lines]


def test_each_message_is_one_line() -> None:
    out, lines = heard()
    out.started({"a": 1}, "a machine", None)
    out.said("two\nlines")
    out.checkpointed(3, Path("step-3"))
    out.failed("bug", "why", 3)
    out.made(Made(name="n", version="1.0.0", figures={}))
    assert [m.kind for m in read(lines)] == ["started", "said", "checkpointed", "failed", "made"]
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in lines)


def test_values_that_are_no_finite_numbers_are_left_out() -> None:
    out, lines = heard()
    out.measured(1, 0.5, {"loss": math.nan, "rate": 0.1, "norm": math.inf})
    assert read(lines)[0].values == {"rate": 0.1}


def test_more_values_than_a_message_holds_are_cut() -> None:
    out, lines = heard()
    out.measured(1, 0.5, {f"m{number}": 1.0 for number in range(100)})
    assert len(read(lines)[0].values) == 64


def test_progress_stays_within_the_whole() -> None:
    out, lines = heard()
    out.measured(1, 1.0000001, {})
    assert read(lines)[0].progress == 1.0


def test_long_texts_are_cut() -> None:
    out, lines = heard()
    out.said("x" * 5000)
    out.failed("bug", "y" * 5000)
    said, failed = read(lines)
    assert (len(said.text), len(failed.words)) == (2000, 1000)


def test_a_message_over_the_lines_bound_is_left_out_in_words() -> None:
    out, lines = heard()
    out.started({"a": "x" * LINE_BYTES_MAX}, "a machine", None)
    (said,) = read(lines)
    assert said.text.startswith("started: ")
    assert len(lines[0]) < LINE_BYTES_MAX


def test_a_stop_is_raised_between_two_pieces_of_work_with_the_last_step() -> None:
    out, _ = heard()
    out.stop_if_asked()
    out.checkpointed(12, Path("step-12"))
    out.ask_to_stop()
    with pytest.raises(StopAsked) as stop:
        out.stop_if_asked()
    assert stop.value.step == 12
