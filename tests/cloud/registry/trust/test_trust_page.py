"""docs/trust.md: each attack and each drill names the tests that show it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "trust.md").read_text()
HERE = ("tests/shared/trust", "tests/cloud/registry/trust", "tests/cloud/registry/api")


def names_of_tests() -> set[str]:
    return {
        node.name
        for folder in HERE
        for file in (ROOT / folder).glob("test_*.py")
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def rows(heading: str) -> list[str]:
    table = PAGE.partition(heading)[2].partition("\n## ")[0]
    return [line for line in table.splitlines() if line.startswith("| ")][1:]


def test_every_test_that_is_named_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 50
    assert named <= names_of_tests()


@pytest.mark.parametrize("heading", ["## Attacks", "## The drill"])
def test_no_row_is_without_one(heading: str) -> None:
    lines = rows(heading)
    assert len(lines) >= 7
    for line in lines:
        assert re.search(r"test_\w+|the same \||tests/", line), line
