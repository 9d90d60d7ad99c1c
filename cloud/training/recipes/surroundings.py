"""What a job's process is like before and after torch is loaded: threads, determinism, no telemetry."""

import os
import platform
import sys

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_NO_TELEMETRY = {
    "ORT_DISABLE_TELEMETRY": "1",
    "NNCF_CI": "1",  # its own switch: a stub takes the sender's place
    "CI": "true",  # openvino_telemetry's
    "RAY_USAGE_STATS_ENABLED": "0",
}
_DETERMINISM = {
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # torch's note on reproducibility asks for it
    "PYTHONHASHSEED": "0",
}
_CPU_NAME = "model name"


def prepare(threads: int) -> None:
    """Before torch, numpy or another library with threads is imported."""
    os.environ |= dict.fromkeys(_THREADS, str(threads)) | _NO_TELEMETRY | _DETERMINISM
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # documented: makes imports fail


def steady(threads: int) -> None:
    """Torch with so many threads, and no operation whose result differs from run to run."""
    import torch  # noqa: PLC0415  not before `prepare`

    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # a property; it costs time and finds only bugs
    torch.manual_seed(0)


def machine(threads: int, processes: int) -> str:
    """What a run's figures and last bits depend on."""
    import torch  # noqa: PLC0415  not before `prepare`

    return (
        f"{_cpu()}, {os.cpu_count()} cores, {processes} x {threads} threads, "
        f"Python {platform.python_version()}, torch {torch.__version__}"
    )


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123  one line of a long file
            for line in lines:
                if line.startswith(_CPU_NAME):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()
