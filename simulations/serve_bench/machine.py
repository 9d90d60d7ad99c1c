"""What the figures were measured on."""

import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Final

from simulations.serve_bench.results import Machine

_OURS: Final = ("aiohttp", "httptools", "numpy", "onnxruntime", "uvloop")


def machine() -> Machine:
    """Describe it as Linux does."""
    cpus = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return Machine(
        cpu=cpus[0] if cpus else platform.machine(),
        cores=len(cpus),
        memory_gb=round(int(memory[1]) / 2**20, 1) if memory else 0.0,
        kernel=platform.release(),
        python=sys.version.split()[0],
        versions={name: version(name) for name in _OURS} | {"wrk": _wrk_version()},
    )


def _wrk_version() -> str:
    said = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout  # noqa: S607
    found = re.search(r"wrk\s+(?:debian/)?([0-9][\w.]*)", said)
    return found[1] if found else "?"
