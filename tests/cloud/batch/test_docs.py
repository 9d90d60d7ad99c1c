"""What docs/batch.md tells people to run, run; and its settings, read."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

from cloud.batch.settings import BatchSettings
from cloud.cli.batch import batch

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "batch.md").read_text()


def commands() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def test_the_commands(tmp_path: Path) -> None:
    """In order, in a folder of their own; the online server of the page is not there."""
    (tmp_path / "models").symlink_to(ROOT / "models")
    assert len(commands()) == 3
    for command in commands():
        words = shlex.split(command)
        assert words[0] == "hybridge"
        python = [sys.executable, "-m", "cloud.cli", *words[1:]]
        if words[2] == "run":
            python.append("--no-give-way")  # to whatever else this machine does: tests end in time
        done = subprocess.run(
            python, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert done.returncode == 0, f"{command}: {done.stdout} {done.stderr}"
    summary = json.loads((tmp_path / "answers" / "_SUCCESS.json").read_text())
    assert (summary["rows"], summary["failed"]) == (2000, 0)


def test_the_settings() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (job,) = BatchSettings.model_validate(tomllib.loads(block)["batch"]).near_line
    assert (job.name, job.every_minutes) == ("belt", 15)


@pytest.mark.parametrize("option", sorted(set(re.findall(r"`(--[a-z0-9-]+)", PAGE))))
def test_every_option_that_it_names_exists(option: str) -> None:
    run = get_command(batch).commands["run"]  # type: ignore[attr-defined]
    known = {o for p in run.params for o in (*p.opts, *p.secondary_opts)}
    assert option in known
