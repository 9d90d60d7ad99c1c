"""docs/cli.md against the commands that there are."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from cloud.cli.__main__ import app
from tests.cloud.cli.own_registry import hybridge

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"
GROUPS = (
    "model", "data-set", "registry", "fleet", "device", "group", "profile", "rollout", "apply",
    "train", "feedback", "loop", "drift",
)  # fmt: skip
LOCAL = {
    ("model", name) for name in ("pack", "unpack", "inspect")
}  # of bundles; they have two codes


def commands(group: Any, above: tuple[str, ...]) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name, command in group.commands.items():
        path = (*above, name)
        found |= commands(command, path) if hasattr(command, "commands") else {path: command}
    return found


ALL = {
    path: command for path, command in commands(get_command(app), ()).items() if path[0] in GROUPS
}


def examples(page: Path = PAGE) -> list[list[str]]:
    """Every line of a page's code blocks that asks one of these, in words."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    words = [shlex.split(line, comments=True) for line in lines if line.startswith("hybridge ")]
    return [one for one in words if one[1] in GROUPS]


def of(words: list[str]) -> tuple[str, ...]:
    """The command of an example."""
    return next(
        path for length in (3, 2, 1) if (path := tuple(words[1 : 1 + length])) in ALL
    )  # fmt: skip


def test_every_command_has_an_example_and_every_example_a_command() -> None:
    assert {of(words) for words in examples()} == set(ALL)


PAGES = [PAGE.parents[1] / "README.md", *sorted(PAGE.parent.glob("*.md"))]


@pytest.mark.parametrize(
    "words", [words for page in PAGES for words in examples(page)], ids=" ".join
)
def test_an_example_names_options_that_there_are(words: list[str]) -> None:
    command = ALL[of(words)]
    known = {name for parameter in command.params for name in parameter.opts}
    used = {word for word in words if re.match(r"--?[a-z]", word)}
    assert used <= known
    needed = [
        one.opts for one in command.params if one.required and one.param_type_name == "option"
    ]
    assert all(used & set(names) for names in needed), needed


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_says_the_exit_codes(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = hybridge(*path, "--help")
    assert said.code == 0
    assert ("Exit codes: " in said.out) or path in LOCAL


def test_what_changes_something_has_a_dry_run_and_a_format() -> None:
    reads = {
        "list", "get", "history", "diff", "checklist", "log", "status", "runners", "replicas",
        "inspect",
        "verify", "pack", "unpack", "events", "logs", "plan", "devices",
        "show", "compare", "workers", "image", "cycles", "watch", "checks", "alarms", "plot",
        "refit",  # changes something with --apply only
    }  # fmt: skip
    for path, command in ALL.items():
        options = {name for parameter in command.params for name in parameter.opts}
        assert ("--dry-run" in options) == (path[-1] not in reads), path
        assert "--output" in options or path in LOCAL | {("model", "verify")}, path


def test_help_loads_nothing_that_only_a_command_needs() -> None:
    code = "import sys, cloud.cli.__main__; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=PAGE.parents[1],
    )
    loaded = set(done.stdout.split())
    assert "typer" in loaded
    assert not loaded & {
        "aiohttp", "yaml", "sqlalchemy", "tuf", "securesystemslib", "cryptography", "sklearn",
        "numpy", "onnxruntime", "pydantic",
    }  # fmt: skip


def test_a_command_that_is_almost_right_is_suggested() -> None:
    said = hybridge("model", "relase")
    assert (said.code, "Did you mean" in said.err, "release" in said.err) == (2, True, True)
    said = hybridge("registry", "keys", "rotat")
    assert (said.code, "rotate" in said.err) == (2, True)


def test_the_page_lists_the_exit_codes() -> None:
    from cloud.cli.registry_session import Code  # noqa: PLC0415

    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", PAGE.read_text(), re.MULTILINE)}
    assert listed == {int(code) for code in Code}
