"""What docs/capacity.md tells people to run, runs; and its settings, read."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from cloud.capacity.settings import Budget
from cloud.capacity.stage_budget import STAGES
from cloud.cli.__main__ import app
from cloud.monitoring.stage_times import EDGES_S
from tests.cloud.workers import ROOT, worker

PAGE = (ROOT / "docs" / "capacity.md").read_text()


def commands() -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order in which they build on each other, against a worker with the page's model."""
    (tmp_path / "models").symlink_to(ROOT / "models")
    found = commands()
    assert len(found) == 6
    found.insert(1, found.pop(0))  # a budget is of requests that were
    with worker(tmp_path, "--bundle", str(ROOT / "models" / "fashion-cloud")) as one:
        one.ready()
        monkeypatch.chdir(tmp_path)
        for words in found:
            assert words[0] == "hybridge"
            here = ["--url", one.api] if words[2] in ("show", "measure") else []
            # nothing here is about how fast this machine is
            here += {"measure": ["--sla-ms", "2000", "--qps-max", "100"], "show": []}.get(
                words[2], []
            )
            if words[2] == "show":
                here += [f"--limit={stage}=1e6" for stage in (*STAGES, "total")]
            done = CliRunner().invoke(app, [*words[1:], *here])
            assert done.exit_code == 0, f"{words}: {done.output} {done.exception}"
            if words[2] == "autoscale":
                assert len(list(yaml.safe_load_all(done.output))) == 2
            if words[2] == "show":
                assert "over" not in done.output


def test_the_settings() -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    budget = Budget.model_validate(tomllib.loads(block)["budget"])
    assert (budget.queue_ms, budget.model_ms, budget.total_ms) == (5, 10, 25)


def test_the_buckets() -> None:
    assert [edge * 1e3 for edge in EDGES_S[:6]] == [0.1, 0.25, 0.5, 1, 2.5, 5]


@pytest.mark.parametrize("option", sorted(set(re.findall(r"`(--[a-z0-9-]+)", PAGE))))
def test_every_option_that_it_names_exists(option: str) -> None:
    root = get_command(app)
    known = {
        name
        for group in ("budget", "capacity")
        for command in root.commands[group].commands.values()  # type: ignore[attr-defined]
        for parameter in command.params
        for name in parameter.opts
    }
    assert option in known
