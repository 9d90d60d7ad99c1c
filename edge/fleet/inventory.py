"""Hardware and engines of this device, without loading any engine. Blocking: reads a few files."""

import importlib.metadata
import os
import platform
import shutil
from contextlib import suppress
from pathlib import Path
from zoneinfo import ZoneInfo

from shared import __version__
from shared.fleet.reported import ReportedInventory

ENGINES = ("onnxruntime", "onnxruntime-gpu", "openvino", "tensorrt")
"""Distributions; what is not installed is left out. That one is installed does not mean that it
runs here: the reported variant says which one does."""
_CPU_KEYS = ("model name", "Hardware", "Model", "cpu model")
_FILE_BYTES_MAX = 64 * 1024
_ZONES = "zoneinfo/"


def inventory(
    state_dir: Path, time_zone: str | None, certificate_serial: str | None = None
) -> ReportedInventory:
    """`time_zone`: of the update windows; None takes the system's."""
    return ReportedInventory(
        sequence=0, at=0, agent=__version__,
        system=f"{platform.system()} {platform.release()}"[:200],
        arch=platform.machine()[:40] or "unknown",
        cpu=_cpu(_head(Path("/proc/cpuinfo"))),
        cores=min(os.cpu_count() or 1, 4096),
        memory_bytes=_memory_bytes(), disk_bytes=_disk_bytes(state_dir),
        engines=_engines(), time_zone=time_zone or system_zone(),
        certificate_serial=certificate_serial,
    )  # fmt: skip


def system_zone(
    name_file: Path = Path("/etc/timezone"), link: Path = Path("/etc/localtime")
) -> str:
    """IANA name of the system's time zone; "UTC" where it has none that is known here."""
    candidates = [os.environ.get("TZ", "").lstrip(":")]
    with suppress(OSError):
        candidates.append(str(link.readlink()).partition(_ZONES)[2])
    candidates.append(_head(name_file).strip())
    for name in candidates:
        with suppress(KeyError, OSError, ValueError):
            if name and len(name) <= 64:
                return ZoneInfo(name).key
    return "UTC"


def _cpu(text: str) -> str:
    found = dict[str, str]()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        found.setdefault(key.strip(), value.strip())
    named = (found[key] for key in _CPU_KEYS if found.get(key))
    return next(named, platform.processor() or "unknown")[:200]


def _engines() -> dict[str, str]:
    found = dict[str, str]()
    for name in ENGINES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)[:80]
    return found


def _memory_bytes() -> int:
    with suppress(OSError, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return 0


def _disk_bytes(folder: Path) -> int:
    with suppress(OSError):
        return shutil.disk_usage(folder).total
    return 0


def _head(path: Path) -> str:
    with suppress(OSError), path.open("rb") as file:
        return file.read(_FILE_BYTES_MAX).decode("utf-8", "replace")
    return ""
