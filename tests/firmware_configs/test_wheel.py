"""The device's wheel: what is in it, what it needs, and that the agent runs from it alone."""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.tiny_bundle import write_tiny_bundle

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "firmware_configs" / "wheel"
FORBIDDEN = ("scipy", "sklearn", "torch", "sqlalchemy", "matplotlib", "typer", "rich", "cloud")
IMPORT_ALL = f"""
import importlib, pkgutil, sys
import edge, shared
names = [found.name for package in (edge, shared)
         for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    importlib.import_module(name)
assert len(names) > 20, names
print(sorted(set(sys.modules) & set({FORBIDDEN!r})))
"""


def settings(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return project


def said(*command: str | Path, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """What the command printed; fails with what it complained of."""
    ran = subprocess.run(
        [str(part) for part in command],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


def test_it_needs_what_the_edge_extra_needs() -> None:
    whole, device = settings(ROOT), settings(RECIPE)
    edge_needs = {*whole["dependencies"], *whole["optional-dependencies"]["edge"]}
    assert edge_needs - set(device["dependencies"]) == set()
    named = {need.split(">")[0] for need in device["dependencies"]}
    assert named - {need.split(">")[0] for need in edge_needs} <= {"packaging"}
    assert device["requires-python"] == whole["requires-python"]
    for extra, needs in device["optional-dependencies"].items():
        assert needs == whole["optional-dependencies"][extra]
    assert device["scripts"] == {"hybridge-edge": whole["scripts"]["hybridge-edge"]}


def test_the_agent_imports_nothing_heavy() -> None:
    assert said(sys.executable, "-c", IMPORT_ALL, cwd=ROOT).strip() == "[]"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    built = tmp_path_factory.mktemp("wheel")
    said(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", built, cwd=RECIPE)
    (found,) = built.glob("*.whl")
    return found


def test_it_holds_the_edge_and_what_is_shared(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"edge", "shared", next(top for top in tops if top.endswith(".dist-info"))}
    assert not [name for name in names if "__pycache__" in name]
    for module in ("edge/__main__.py", "shared/doctor.py", "shared/bundle/manifest.py"):
        assert module in names


@pytest.mark.slow
def test_the_agent_runs_from_it_alone(wheel: Path, tmp_path: Path) -> None:
    said(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    scripts = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    said(
        scripts / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel,
        cwd=tmp_path, environment=environment,
    )  # fmt: skip
    assert said(scripts / "python", "-c", IMPORT_ALL, cwd=tmp_path).strip() == "[]"
    missing = "import importlib.util, sys; sys.exit(importlib.util.find_spec('cloud') is not None)"
    said(scripts / "python", "-c", missing, cwd=tmp_path, environment=environment)
    bundle = write_tiny_bundle(tmp_path / "bundle", variants=("onnxruntime/fp32", "openvino/fp32"))
    report = json.loads(
        said(
            scripts / "hybridge-edge", "doctor", "--json", "--bundle", bundle,
            cwd=tmp_path, environment=environment,
        )
    )  # fmt: skip
    assert report["healthy"] is True
    assert report["bundle"]["chosen"] == "onnxruntime/fp32"
    assert "openvino package is not installed" in report["bundle"]["variants"][1]["reason"]
