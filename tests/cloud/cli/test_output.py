import json
from enum import StrEnum
from io import StringIO

import pytest
import yaml
from pydantic import BaseModel

from cloud.cli.output import Format, cell, console, facts, grid, moment, print_tree, show, size
from cloud.cli.progress import byte_bar


class Colour(StrEnum):
    RED = "red"


class Thing(BaseModel):
    name: str
    colour: Colour = Colour.RED
    sizes: tuple[int, ...] = (1, 2)


def refuse(_: object) -> None:
    raise AssertionError("no table was asked for")


@pytest.mark.parametrize("form", [Format.JSON, Format.YAML])
def test_programs_read_the_same_tree_in_either_form(
    form: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    show([Thing(name="a: [red]\u202e")], form, refuse)
    said = capsys.readouterr()
    read = json.loads if form is Format.JSON else yaml.safe_load
    assert read(said.out) == [{"name": "a: [red]\u202e", "colour": "red", "sizes": [1, 2]}]
    assert said.out.isascii()
    assert said.err == ""


def test_a_table_shows_markup_as_it_is_and_moves_no_cursor(
    capsys: pytest.CaptureFixture[str],
) -> None:
    grid(console(), "Names", ("name", "text"), [("[bold]x[/bold] :smile:", "\x1b[2Jgone\nline")])
    said = capsys.readouterr().out
    assert "[bold]x[/bold] :smile:" in said
    assert "?[2Jgone line" in said
    assert "\x1b" not in said


def test_a_table_without_rows_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    grid(console(), "Models", ("name",), [])
    assert capsys.readouterr().out == "Models: none.\n"


def test_lines_in_a_pipe_are_not_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    facts(console(), "One", [("name", "x" * 500), ("nothing", None)])
    said = capsys.readouterr().out
    assert "x" * 500 in said
    assert "nothing" not in said


def test_cells() -> None:
    assert [cell(value) for value in (None, True, 1234567, 0.123456, "a")] == [
        "", "yes", "1,234,567", "0.1235", "a",
    ]  # fmt: skip
    assert [size(count) for count in (999, 1000, 12_345_678, 5e9)] == [
        "999 bytes", "1.0 KB", "12.3 MB", "5.00 GB",
    ]  # fmt: skip
    assert moment(0.0) == "1970-01-01 00:00:00Z"
    assert moment(None) == ""
    assert moment(1e18) == "1000000000000000000"


def test_a_bar_is_silent_where_nobody_looks(capfd: pytest.CaptureFixture[str]) -> None:
    for form in Format:
        with byte_bar("x", 10, form) as moved:
            moved(10)
    said = capfd.readouterr()
    assert said.out == said.err == ""


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_a_person_sees_bytes_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with byte_bar("fashion-edge 1.0.0", 2_000_000, Format.TABLE) as moved:
        moved(1_000_000)
    said = terminal.getvalue()
    assert "fashion-edge 1.0.0" in said
    assert "1.0/2.0 MB" in said
    assert ":" in said.rpartition("MB")[2]  # -:--:-- or a time
    assert capsys.readouterr().out == ""


def test_yaml_is_no_python(capsys: pytest.CaptureFixture[str]) -> None:
    print_tree({"version": "1.10", "yes": "no", "at": None}, Format.YAML)
    assert yaml.safe_load(capsys.readouterr().out) == {"version": "1.10", "yes": "no", "at": None}


def test_a_stdout_that_was_closed_before_the_start_is_no_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdout", None)
    show([], Format.TABLE, lambda out: out.print("nobody reads this"))
    print_tree([], Format.JSON)
