import io
import json
import logging
from collections.abc import Iterator

import pytest

from shared import logs


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.set_up("info", stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)


def test_one_json_object_a_line_with_its_fields(lines: io.StringIO) -> None:
    logging.getLogger("x").warning("link_lost", extra={"broker": "b", "seconds": 2})
    logging.getLogger("x").debug("too_much")
    (line,) = lines.getvalue().splitlines()
    entry = json.loads(line)
    assert entry.pop("at").endswith("Z")
    assert entry == {
        "level": "warning", "event": "link_lost", "logger": "x", "broker": "b", "seconds": 2,
    }  # fmt: skip


def test_half_a_character_does_not_break_the_line(lines: io.StringIO) -> None:
    logging.getLogger("x").warning("odd", extra={"name_": "a\ud800b"})
    (line,) = lines.getvalue().splitlines()
    assert line.encode()
    assert json.loads(line)["name_"] == "a\ud800b"


def test_a_chain_of_errors_stays_on_its_line(lines: io.StringIO) -> None:
    try:
        try:
            {}.pop("inner")
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError:
        logging.getLogger("x").exception("failed")
    (line,) = lines.getvalue().splitlines()
    trace = json.loads(line)["trace"]
    assert "inner" in trace
    assert "outer" in trace


def test_once_per_period_with_a_count_of_what_was_held_back() -> None:
    once = logs.OncePer(60.0)
    assert [once.admits("a", now) for now in (0.0, 1.0, 59.9)] == [0, None, None]
    assert once.admits("b", 1.0) == 0
    assert once.admits("a", 60.0) == 2
    assert once.admits("a", 61.0) is None


def test_kinds_are_bounded() -> None:
    once = logs.OncePer(60.0, kinds_max=2)
    assert [once.admits(str(n), 0.0) for n in range(5)] == [0, 0, 0, None, None]
