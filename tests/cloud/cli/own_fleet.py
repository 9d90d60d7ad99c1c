"""A fleet's real process, and `hybridge` asked in this one or as a process of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cloud.cli.own_registry import Said, hybridge
from tests.cloud.fleet.servers import FleetProcess

HYBRIDGE = Path(sys.executable).parent / "hybridge"


def asked(fleet: FleetProcess, role: str = "operator") -> tuple[str, ...]:
    """The options that name this fleet, and a key of a role."""
    return ("--fleet", fleet.url, "--key-file", str(fleet.key_file(role)))


def run(fleet: FleetProcess, *arguments: str | Path, role: str = "operator") -> Said:
    return hybridge(*arguments, *asked(fleet, role))


def found(fleet: FleetProcess, *arguments: str | Path, role: str = "operator") -> Any:
    """What the command prints with -o json; it must have done it."""
    return run(fleet, *arguments, "-o", "json", role=role).json


def head(fleet: FleetProcess) -> int:
    """Of its log: what a command that changes nothing leaves as it was."""
    return int(found(fleet, "fleet", "status", role="viewer")["head"])


def process(fleet: FleetProcess, *arguments: str) -> subprocess.Popen[str]:
    """`hybridge ARGUMENTS` beside this process, its lines as they come."""
    return subprocess.Popen(
        [HYBRIDGE, *arguments, *asked(fleet)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=os.environ | {"HYBRIDGE_PATIENCE_S": "0.5"},
    )  # fmt: skip
