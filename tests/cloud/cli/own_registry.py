"""A registry that `hybridge registry init` made, running, and `hybridge` asked in this process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import typer.main

from cloud.cli.__main__ import app, main

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)


@cache
def commands() -> Any:
    """All of them, made once: that takes longer than most of them do."""
    return typer.main.get_command(app)


def hybridge(*arguments: str | Path) -> Said:
    """`hybridge ARGUMENTS`."""
    out, err = StringIO(), StringIO()
    code: Any = None
    made = commands()
    with (
        patch.object(typer.main, "get_command", lambda _: made),
        patch.object(sys, "argv", ["hybridge", *map(str, arguments)]),
        patch.object(sys, "stdout", out),
        patch.object(sys, "stderr", err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code
    return Said(code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())


@dataclass
class OwnRegistry:
    """`folder` is what `init` made."""

    folder: Path
    url: str
    process: subprocess.Popen[str]

    @property
    def state_dir(self) -> Path:
        return self.folder / "state"

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    def asked(self, role: str) -> tuple[str, ...]:
        """The options that name this registry, and a key of a role."""
        return ("--registry", self.url, "--key-file", str(self.keys / "api" / f"{role}.key"))

    def run(self, role: str, *arguments: str | Path) -> Said:
        return hybridge(*arguments, *self.asked(role))

    def json(self, role: str, *arguments: str | Path) -> Any:
        """What the command prints with -o json; it must have done it."""
        return self.run(role, *arguments, "-o", "json").json

    @property
    def entries(self) -> int:
        """Of its log: what a command that changes nothing leaves as it was."""
        return int(self.json("viewer", "registry", "status")["head"]["seq"])


@contextmanager
def own_registry(folder: Path, *, evaluates: bool) -> Iterator[OwnRegistry]:
    """Made, started, and with its first trust metadata published.

    Without evaluators, which take seconds, `tests.cloud.registry.pushing.end_evaluation` ends one.
    """
    assert hybridge("registry", "init", folder, "--port", "0").code == 0
    if not evaluates:
        with (folder / "registry.toml").open("a") as settings:
            settings.write("\n[evaluation]\nprocesses = 0\n")
    with start(folder) as running:
        files = [running.keys / "1.root.json", running.keys / "1.targets.json"]
        assert running.run("operator", "registry", "keys", "publish", *files).code == 0
        yield running


@contextmanager
def start(folder: Path) -> Iterator[OwnRegistry]:
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "cloud", "registry", "--config", str(folder / "registry.toml")],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, (folder / "log").read_text()
        yield OwnRegistry(folder, json.loads(line)["api"], process)
    finally:
        process.kill()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
