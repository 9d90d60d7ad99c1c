"""What this machine is, and one short name for it: figures from another do not count."""

import hashlib
import importlib.metadata
import os
import platform
import re
from pathlib import Path

from cloud.registry.documents import Hardware

_PACKAGES = ("numpy", "onnxruntime", "onnxruntime-gpu", "openvino", "tensorrt")
_GIB = 1024**3
_CPU_MAX = 200


def this_hardware() -> Hardware:
    """Asks the system; takes milliseconds, and imports no engine."""
    cpu, flags = _cpu()
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return described(
        cpu=cpu,
        flags=flags,
        gpus=_gpus(),
        cores=cores,
        memory_bytes=_memory_bytes(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        engines={
            package: version for package in _PACKAGES if (version := _version(package)) is not None
        },
    )


def described(
    *,
    cpu: str,
    flags: str,
    cores: int,
    memory_bytes: int,
    system: str,
    engines: dict[str, str],
    gpus: tuple[str, ...] = (),
) -> Hardware:
    """The fingerprint is of all that moves figures; memory in whole GiB, for kernels keep some."""
    parts = [cpu, flags, str(cores), str(round(memory_bytes / _GIB)), system.split(maxsplit=1)[0]]
    parts += [f"{package} {version}" for package, version in sorted(engines.items())]
    parts += [f"gpu {gpu}" for gpu in gpus]
    return Hardware(
        fingerprint=hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16],
        cpu=cpu[:_CPU_MAX],
        cores=cores,
        memory_bytes=memory_bytes,
        system=", ".join((system, *gpus))[:_CPU_MAX],
        engines=engines,
    )


def _cpu() -> tuple[str, str]:
    """Model name and flags, sorted; of the first core."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace").split("\n\n", 1)[0]
    except OSError:
        return platform.processor() or platform.machine(), ""
    fields = dict(re.findall(r"^([^\t:]+)\t*: ?(.*)$", text, re.MULTILINE))
    model = fields.get("model name") or fields.get("CPU part") or platform.machine()
    flags = fields.get("flags") or fields.get("Features") or ""
    return model.strip(), " ".join(sorted(flags.split()))


def _gpus() -> tuple[str, ...]:
    """As NVIDIA's driver names them; tensorrt's figures are of these."""
    found = []
    for file in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        try:
            text = file.read_text("utf-8", "replace")
        except OSError:
            continue
        found += re.findall(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE)
    return tuple(found)


def _memory_bytes() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 0


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
