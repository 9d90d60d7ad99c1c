"""Neither runtime may look anything up, connect, or write under the home folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

PROGRAM = """
import os, sys
import tests.tiny_bundle as tiny

looked_up, imports = [], []

def watch(event, args):
    if event.startswith("socket."):
        looked_up.append((event, args))
    if event == "import" and args[0].startswith("onnxruntime"):
        imports.append(os.environ.get("ORT_DISABLE_TELEMETRY"))

sys.addaudithook(watch)
from shared.engines.engine import OpenOptions
from shared.engines.known import known_engines
engine = {engine.name: engine for engine in known_engines()}[sys.argv[1]]
session = engine.open(tiny.tiny_onnx(), OpenOptions())
session.run(tiny.unsure_image()[None])
session.close()

assert not looked_up, looked_up
assert bool(imports) == (engine.name == "onnxruntime")
assert set(imports) <= {"1"}, f"imported with telemetry on: {imports}"
assert "openvino_telemetry" not in sys.modules
if os.path.isdir("/proc/self/fd"):  # what native code does is invisible to audit hooks
    held = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
            if os.path.lexists(f"/proc/self/fd/{fd}")]
    assert not [name for name in held if name.startswith("socket:")], held
print("ran")
"""


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_no_look_up_and_nothing_under_home(engine: str, tmp_path: Path) -> None:
    pytest.importorskip(engine)
    home = tmp_path / "home"
    home.mkdir()
    environment = {
        "HOME": str(home),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, engine],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == "ran"
    assert list(home.rglob("*")) == []
