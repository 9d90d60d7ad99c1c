"""docs/registry.md: what it tells people to run runs, and its tables are the code's."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloud.gateway.roles import Role
from cloud.registry.catalog.permissions import PERMISSIONS
from cloud.registry.catalog.states import State
from tests.cloud.keyed_process import DEADLINE_S, ROOT
from tests.cloud.registry.api.test_access import ROUTES
from tests.cloud.registry.servers import ROLES
from tests.tiny_bundle import write_tiny_bundle

PAGE = (ROOT / "docs" / "registry.md").read_text()


def commands() -> list[list[str]]:
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [shlex.split(line) for line in block.splitlines()]


@contextmanager
def serving(folder: Path, words: list[str]) -> Iterator[str]:
    """The page's second command, on a free port."""
    assert words[0] == "hybridge-cloud"
    assert words[-1] == "&"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "cloud", *words[1:-1], "--api-port", "0"],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
            stdout=subprocess.PIPE, stderr=log,
        )  # fmt: skip
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, (folder / "log").read_text()
        yield str(json.loads(line)["api"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait(DEADLINE_S)
        process.stdout.close()


def run(folder: Path, words: list[str], url: str = "") -> str:
    assert words[0] == "hybridge"
    done = subprocess.run(
        [sys.executable, "-m", "cloud.cli", *words[1:]], cwd=folder, capture_output=True, text=True,
        timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT), "HYBRIDGE_REGISTRY": url},
    )  # fmt: skip
    assert done.returncode == 0, f"{words}: {done.stdout} {done.stderr}"
    return done.stdout


@pytest.mark.slow
def test_from_nothing_to_a_release(tmp_path: Path) -> None:
    write_tiny_bundle(tmp_path / "models" / "fashion-edge", name="fashion-edge")
    init, serve, export, *others = commands()
    run(tmp_path, init)
    assert export[0] == "export"
    with serving(tmp_path, serve) as url:
        for command in others:
            run(tmp_path, command, url)
        viewer = ["--key-file", "registry/keys/api/viewer.key", "-o", "json"]
        found = run(tmp_path, ["hybridge", "model", "get", "fashion-edge", *viewer], url)
        assert json.loads(found)["current"] == "1.0.0"


def test_the_roles() -> None:
    rows = re.findall(r"^\| (\w+)(?:,[^|]*| \([^|]*\))? \|((?: x? ?\|){5})$", PAGE, re.MULTILINE)
    said = {
        name: {role for role, cell in zip(ROLES, cells.split("|"), strict=False) if "x" in cell}
        for name, cells in rows if name[0].isupper()
    }  # fmt: skip
    given = {
        command.__name__: {role for role in roles if role in ROLES}
        for command, roles in PERMISSIONS.items() if roles
    }  # fmt: skip
    assert said == given


def test_the_routes() -> None:
    table = PAGE.partition("## Routes")[2].partition("## Running")[0]
    for _, path in ROUTES:
        assert re.split(r"[/}]", path.rstrip("}"))[-1] in table, path
    for named in re.findall(r"/(?:v1|tuf)/[^`?, ]*", table):
        assert any(path.startswith(named) for _, path in ROUTES), named


def test_the_states() -> None:
    assert {state.value for state in State} <= set(re.findall(r"\w+", PAGE))
    assert Role.FETCH in ROLES
