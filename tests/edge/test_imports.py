"""What a device's process loads before it is asked to; memory and start-up time depend on it."""

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import edge
import shared

_ROOT = str(Path(__file__).parents[2])
_NEVER = {
    "cloud", "simulations", "matplotlib", "onnx", "prometheus_client", "rich", "scipy", "sklearn",
    "sqlalchemy", "torch", "typer", "uvloop",
}  # fmt: skip
_NOT_UNTIL_USED = {"onnxruntime", "openvino", "tensorrt", "cuda", "tritonclient"}


def loaded_by(statement: str) -> set[str]:
    """The top-level packages in memory after `statement`."""
    code = (
        f"import json, sys; {statement}; print(json.dumps([m.split('.')[0] for m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": _ROOT},
    )  # fmt: skip
    return set(json.loads(done.stdout))


@pytest.mark.parametrize("module", ["edge.__main__", "edge.service"])
def test_the_agent_loads_nothing_heavy_and_no_engine_before_it_opens_one(module: str) -> None:
    loaded = loaded_by(f"import {module}")
    assert {"edge", "shared", "numpy", "aiohttp"} <= loaded
    assert not loaded & (_NEVER | _NOT_UNTIL_USED)
    assert not loaded & {
        "tuf",
        "securesystemslib",
        "cryptography",
    }  # of updates, when there are any


def test_no_module_of_edge_or_shared_loads_anything_of_the_cloud() -> None:
    modules = [
        found.name
        for package in (edge, shared)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    assert len(modules) > 50
    assert not loaded_by(f"import {', '.join(modules)}") & (_NEVER | _NOT_UNTIL_USED)
