"""Who is measured: how each server is installed, started and asked. Settings are their own best.

Every peer has the same ONNX Runtime session of one thread, batches of at most 64, and waits at most
1 ms for company where it has such a setting.
"""

import json
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copy, copytree
from typing import Final

from simulations.serve_bench import wire_forms
from simulations.serve_bench.servers.session import ROWS_MAX
from simulations.serve_bench.wire_forms import Form

REPOSITORY: Final = Path(__file__).parents[2]
PEERS_FOLDER: Final = REPOSITORY / "build" / "peers"
"""One virtual environment a peer; git does not see it."""
_SERVERS: Final = "simulations.serve_bench.servers"
_LOCAL: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Place:
    """What a server is started with. `ports`: HTTP, and two more for those that want them."""

    python: Path
    folder: Path
    ports: tuple[int, int, int]

    @property
    def port(self) -> int:
        return self.ports[0]

    def program(self, name: str) -> str:
        return str(self.python.parent / name)


@dataclass(frozen=True, slots=True)
class Launch:
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peer:
    """One server in one setting. `environment` "": our own, nothing to install."""

    name: str
    title: str
    environment: str
    packages: tuple[str, ...]
    form: Form
    path: str
    launch: Callable[[Place], Launch]
    workers: int = 1
    is_floor: bool = False
    """Bare prototypes and the echo: shown beside, compared with by nobody's target."""
    answers_right: bool = True
    """An echo does not."""
    version_of: str = ""
    """Whose version it is, where a package carries another's server."""

    @property
    def python(self) -> Path:
        if not self.environment:
            return python_of_ours()
        return PEERS_FOLDER / self.environment / "bin" / "python"


def _module(name: str, *arguments: str) -> Callable[[Place], Launch]:
    return lambda place: Launch((str(place.python), "-m", f"{_SERVERS}.{name}", *arguments))


def _mosec(place: Place) -> Launch:
    return Launch((
        str(place.python), "-m", f"{_SERVERS}.mosec_server", "--address", _LOCAL,
        "--port", str(place.port), "--log-level", "warning",
    ))  # fmt: skip


def _triton(instances: int) -> Callable[[Place], Launch]:
    """The tritonserver binary of the PyTriton wheel with its Python backend."""

    def launch(place: Place) -> Launch:
        packages = place.python.parents[1] / "lib" / _python() / "site-packages"
        server = packages / "pytriton" / "tritonserver"
        model = place.folder / "models" / "cnn"
        (model / "1").mkdir(parents=True)
        copy(Path(__file__).parent / "servers" / "triton_model.py", model / "1" / "model.py")
        (model / "config.pbtxt").write_text(
            f'name: "cnn"\nbackend: "python"\nmax_batch_size: {ROWS_MAX}\n'
            'input [{ name: "x" data_type: TYPE_FP32 dims: [1,28,28] }]\n'
            'output [{ name: "y" data_type: TYPE_FP32 dims: [10] }]\n'
            "dynamic_batching { max_queue_delay_microseconds: 0 }\n"
            f"instance_group [{{ count: {instances} kind: KIND_CPU }}]\n"
        )
        backend = place.folder / "backends" / "python"
        copytree(server / "backends" / "python", backend)
        stubs = server / "python_backend_stubs" / _python().removeprefix("python")
        copy(stubs / "triton_python_backend_stub", backend)
        http, grpc, metrics = map(str, place.ports)
        return Launch(
            (
                str(server / "bin" / "tritonserver"), f"--model-repository={model.parent}",
                f"--backend-directory={backend.parent}", f"--http-address={_LOCAL}",
                f"--http-port={http}", f"--grpc-address={_LOCAL}", f"--grpc-port={grpc}",
                f"--metrics-address={_LOCAL}", f"--metrics-port={metrics}",
                "--http-thread-count=2",
            ),
            {
                "VIRTUAL_ENV": str(place.python.parents[1]),
                "SERVE_BENCH_REPOSITORY": str(REPOSITORY),
                "PYTHONPATH": str(packages),
                # its stub would load the system's libpython with this interpreter's library
                "LD_LIBRARY_PATH": f"{packages / 'nvidia_pytriton.libs'}:{sysconfig.get_config_var('LIBDIR')}",
            },
        )  # fmt: skip

    return launch


def _mlserver(parallel_workers: int) -> Callable[[Place], Launch]:
    def launch(place: Place) -> Launch:
        http, grpc, metrics = place.ports
        _write_json(place.folder / "settings.json", {
            "host": _LOCAL, "http_port": http, "grpc_port": grpc, "metrics_port": metrics,
            "parallel_workers": parallel_workers, "debug": False,
        })  # fmt: skip
        _write_json(place.folder / "model-settings.json", {
            "name": "cnn", "implementation": f"{_SERVERS}.mlserver_runtime.Runtime",
            "max_batch_size": ROWS_MAX, "max_batch_time": 0.001,
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 1, 28, 28]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 10]}],
        })  # fmt: skip
        return Launch((place.program("mlserver"), "start", str(place.folder)))

    return launch


def _bento(place: Place) -> Launch:
    service = f"{_SERVERS}.bento_server:Model"
    return Launch(
        (place.program("bentoml"), "serve", service, "--host", _LOCAL, "--port", str(place.port)),
        {"BENTOML_HOME": str(place.folder)},
    )


def _ray(place: Place) -> Launch:
    return Launch(
        (str(place.python), "-m", f"{_SERVERS}.ray_server"),
        {"RAY_SERVE_THROUGHPUT_OPTIMIZED": "1", "RAY_TMPDIR": str(place.folder)},
    )


_V2: Final = wire_forms.V2_PATH.format(model="cnn")
_MOSEC: Final = ("mosec", "onnxruntime", "numpy")
_TRITON: Final = ("nvidia-pytriton", "onnxruntime", "numpy")
_MLSERVER: Final = ("mlserver", "onnxruntime", "uvloop<0.22")  # newer: its workers do not start
_LITSERVE: Final = ("litserve", "onnxruntime", "numpy")
_BENTO: Final = ("bentoml", "onnxruntime", "numpy")
_RAY: Final = ("ray[serve]", "onnxruntime", "numpy")
_KSERVE: Final = ("kserve", "onnxruntime", "numpy")

PEERS: Final = {
    peer.name: peer
    for peer in (
        Peer("mosec", "Mosec, 2 workers", "mosec", _MOSEC, "raw", "/inference", _mosec, 2),
        Peer("mosec-1", "Mosec, 1 worker", "mosec", _MOSEC, "raw", "/inference", _mosec),
        Peer("triton", "Triton, 1 instance", "triton", _TRITON, "v2-binary", _V2, _triton(1), version_of="PyTriton "),
        Peer("triton-2", "Triton, 2 instances", "triton", _TRITON, "v2-binary", _V2, _triton(2), version_of="PyTriton "),
        Peer("mlserver", "MLServer", "mlserver", _MLSERVER, "v2-json", _V2, _mlserver(0)),
        Peer("mlserver-2", "MLServer, 2 workers", "mlserver", _MLSERVER, "v2-json", _V2, _mlserver(2)),
        Peer("litserve", "LitServe, 1 worker", "litserve", _LITSERVE, "base64", "/predict", _module("litserve_server")),
        Peer("litserve-2", "LitServe, 2 workers", "litserve", _LITSERVE, "base64", "/predict", _module("litserve_server"), 2),
        Peer("bentoml", "BentoML, 1 worker", "bentoml", _BENTO, "base64-list", "/predict", _bento),
        Peer("bentoml-2", "BentoML, 2 workers", "bentoml", _BENTO, "base64-list", "/predict", _bento, 2),
        Peer("ray", "Ray Serve, 1 replica", "ray", _RAY, "raw", "/", _ray),
        Peer("ray-2", "Ray Serve, 2 replicas", "ray", _RAY, "raw", "/", _ray, 2),
        Peer("kserve", "KServe Python, 1 worker", "kserve", _KSERVE, "v2-binary", _V2, _module("kserve_server")),
        Peer("kserve-2", "KServe Python, 2 workers", "kserve", _KSERVE, "v2-binary", _V2, _module("kserve_server"), 2),
        Peer("bare", "bare prototype, 1 process", "", (), "raw", "/", _module("bare", "model"), 1, is_floor=True),
        Peer("bare-2", "bare prototype, 2 processes", "", (), "raw", "/", _module("bare", "model"), 2, is_floor=True),
        Peer("echo", "bare echo, no model", "", (), "raw", "/", _module("bare", "echo"), 1, is_floor=True, answers_right=False),
    )
}  # fmt: skip
FRONT: Final = ("mosec", "triton", "bare", "bare-2", "echo")
"""Measured in alternation with ours, all started at once."""
BEHIND: Final = ("mlserver", "litserve", "bentoml-2", "ray", "kserve-2")
"""An order of magnitude behind: one at a time, so that their idling costs nobody anything."""
DEFAULT: Final = FRONT + BEHIND


def python_of_ours() -> Path:
    """The interpreter of this process."""
    return Path(sys.executable)


def _python() -> str:
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content))
