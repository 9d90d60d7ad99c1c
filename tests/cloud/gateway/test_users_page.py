"""docs/gateway.md says what the code does: its commands run, its settings and lists are the code's."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from cloud.gateway.api_key import PATTERN, read_key
from cloud.gateway.counts import GatewayCounts
from cloud.gateway.refusals import Reason
from cloud.gateway.roles import GRANTS
from cloud.gateway.settings import GatewaySettings
from cloud.gateway.shared_permits import BLOCKS_A_WINDOW, DOWN_S, TIMEOUT_S

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "gateway.md").read_text()


def test_its_commands_run_and_its_keys_come_in(tmp_path: Path) -> None:
    (commands,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    program = tmp_path / "bin" / "hybridge"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nif [ "$1" = key ]; then shift; fi\nexec {sys.executable} -c '
        "'from cloud.cli.key import key; key()' \"$@\"\n"
    )
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["sh", "-ec", commands], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert re.match(PATTERN, ran.stdout)
    assert re.search(r"key \w{10} of line-3 removed", ran.stdout)
    assert read_key((tmp_path / "ops.key").read_text().strip())


def test_its_settings_are_settings() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        GatewaySettings.model_validate(tomllib.loads(block)["gateway"])


def test_its_roles_are_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE, re.MULTILINE)
    assert rows[: len(GRANTS)] == [(role, grant.may) for role, grant in GRANTS.items()]


def test_its_reasons_metrics_and_events_are_the_codes() -> None:
    reasons = re.findall(r"`(\w+)`", PAGE[PAGE.index("Reasons:") :])
    assert reasons == [str(reason) for reason in Reason]
    registry = CollectorRegistry()
    GatewayCounts(registry)
    shown = dict(
        re.findall(
            r"^\| `(hybridge_gateway_\w+?)(?:_total)?(?:\{.*\})?` \| (.*) \|$", PAGE, re.MULTILINE
        )
    )
    assert shown == {family.name: family.documentation for family in registry.collect()}
    said = re.search(r"Log events: (.*?)\.\n", PAGE, re.DOTALL)
    assert said is not None
    code = "".join(path.read_text() for path in (ROOT / "cloud" / "gateway").glob("*.py"))
    events = set(re.findall(r"log\.\w+\(\s*\"(\w+)\"", code))
    assert set(re.findall(r"`(\w+)`", said[1])) == events


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("Tokens have up to 4,096 bytes", 4096),
        ("differ by 30 s", 30),
        ("every 5 minutes", 300),
        ("`body_bytes_max` (16 MiB)", 16 << 20),
        ("`in_hand_max` (512 requests", 512),
        ("may fail 20 times, then once a second", (20, 1.0)),
    ],
)
def test_its_figures_are_the_defaults(words: str, value: object) -> None:
    assert words in " ".join(PAGE.split())
    tokens = {"issuer": "i", "audience": "a", "keys_file": "f"}
    found = GatewaySettings.model_validate({"tokens": tokens})
    assert found.tokens is not None
    assert value in (
        found.tokens.token_bytes_max, found.tokens.leeway_s, found.tokens.refresh_s,
        found.body_bytes_max, found.in_hand_max, (found.failures_burst, found.failures_per_s),
    )  # fmt: skip


def test_its_figures_of_a_shared_storage_are_the_codes() -> None:
    assert (BLOCKS_A_WINDOW, TIMEOUT_S, DOWN_S) == (100, 0.05, 5.0)
    assert "blocks of a hundredth" in PAGE
    assert "has 50 ms" in PAGE
    assert "every 5 s" in PAGE
