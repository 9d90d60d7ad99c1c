"""`hybridge batch`: what it prints and its exit codes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cloud.cli.__main__ import app
from shared.errors import Malformed, Unknown
from tests.cloud.batch.images import noise, npy, png, tiny_bundle, write_inputs
from tests.tiny_bundle import sure_image

RUNNER = CliRunner()


@pytest.fixture
def words(tmp_path: Path) -> Callable[..., list[str]]:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "x.png").write_bytes(png(sure_image(0)))

    def with_options(*options: str) -> list[str]:
        return [
            "batch", "run", str(tmp_path / "in"), str(tmp_path / "out"), "--no-give-way",
            "--bundle", str(tiny_bundle(tmp_path)), "--engine", "onnxruntime", *options,
        ]  # fmt: skip

    return with_options


def events(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_done_is_0_and_says_so(words: Callable[..., list[str]], tmp_path: Path) -> None:
    done = RUNNER.invoke(app, words(), catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stdout.startswith("Complete: 1 rows in this run (")
    assert done.stdout.endswith(f" 1 in {tmp_path / 'out'}\n")


def test_bad_inputs_are_1(words: Callable[..., list[str]], tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    done = RUNNER.invoke(app, words(), catch_exceptions=False)
    assert done.exit_code == 1
    assert f"2 inputs failed, see {tmp_path / 'out' / 'errors.jsonl'}" in done.stdout


def test_json_lines(words: Callable[..., list[str]]) -> None:
    done = RUNNER.invoke(app, words("--json"), catch_exceptions=False)
    said = events(done.stdout)
    assert [line["event"] for line in said] == ["begun", *["progress"] * (len(said) - 2), "ended"]
    assert said[-2]["rows"] == said[-2]["rows_expected"] == 1
    assert said[-1]["how"] == "complete"


def test_outside_of_its_hours_is_3_when_not_to_wait(words: Callable[..., list[str]]) -> None:
    """Of these two windows one is closed, whatever the time is."""
    codes = []
    for window in ("00:00-12:00", "12:00-00:00"):
        done = RUNNER.invoke(
            app, words("--window", window, "--time-zone", "UTC", "--no-wait"),
            catch_exceptions=False,
        )  # fmt: skip
        codes.append(done.exit_code)
    assert sorted(codes) == [0, 3]


def test_a_zone_without_a_window_is_wrong_usage(words: Callable[..., list[str]]) -> None:
    assert RUNNER.invoke(app, words("--time-zone", "UTC")).exit_code == 2


def test_a_window_that_is_none(words: Callable[..., list[str]]) -> None:
    with pytest.raises(Malformed, match="write it as 22:00-06:00"):
        RUNNER.invoke(app, words("--window", "night"), catch_exceptions=False)


def test_status_of_what_was_begun(words: Callable[..., list[str]], tmp_path: Path) -> None:
    write_inputs(tmp_path / "in")
    RUNNER.invoke(app, words("--limit", "40"), catch_exceptions=False)
    out = str(tmp_path / "out")
    said = RUNNER.invoke(app, ["batch", "status", out], catch_exceptions=False).stdout
    assert "tiny-cloud 1.0.0 (onnxruntime/fp32)" in said
    assert "40 rows of 4 inputs in 1 parts, 1 inputs failed: not complete" in said
    as_json = RUNNER.invoke(app, ["batch", "status", out, "--json"], catch_exceptions=False).stdout
    found = json.loads(as_json)
    assert (found["rows"], found["failed"], found["complete"]) == (40, 1, False)
    RUNNER.invoke(app, words(), catch_exceptions=False)
    said = RUNNER.invoke(app, ["batch", "status", out], catch_exceptions=False).stdout
    assert "98 rows of 9 inputs in 2 parts, 2 inputs failed: complete" in said


def test_status_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(Unknown, match="no batch was begun here"):
        RUNNER.invoke(app, ["batch", "status", str(tmp_path)], catch_exceptions=False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_with_4_and_keeps_what_is_done(
    words: Callable[..., list[str]], tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "in" / "many.npy").write_bytes(npy(noise(200_000)))
    command = [sys.executable, "-m", "cloud.cli", *words("--json", "--part-rows", "100")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if json.loads(line).get("rows"):
                    break
            os.kill(process.pid, number)
            said = events(process.stdout.read())
            assert process.wait(30) == 4
        finally:
            process.kill()
    assert said[-1]["how"] == "stopped"
    assert said[-1]["totals"]["rows"] == said[-1]["rows"] > 0
    status = RUNNER.invoke(app, ["batch", "status", str(tmp_path / "out"), "--json"])
    assert json.loads(status.stdout)["rows"] == said[-1]["rows"]
