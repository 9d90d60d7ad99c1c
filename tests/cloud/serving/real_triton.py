"""A real Triton with a bundle's model: the binary of the `nvidia-pytriton` wheel, where installed.

Its Python backend runs the bundle's ONNX file, since the wheel has no other backend.
"""

import shutil
import socket
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shared.bundle.reader import open_bundle

VENV = Path(__file__).parents[3] / "build" / "peers" / "triton"
INSTALL = "`python -m simulations.serve_bench install triton` installs it"
_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
_PACKAGES = VENV / "lib" / _PYTHON / "site-packages"
_SERVER = _PACKAGES / "pytriton" / "tritonserver"
_BATCH_MAX = 16
_MODEL = """
import json
import sys

sys.path.append("{packages}")
import numpy as np
import onnxruntime
import triton_python_backend_utils as backend


class TritonPythonModel:
    def initialize(self, _):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(
            "{graph}", options, providers=["CPUExecutionProvider"]
        )

    def execute(self, requests):
        parts = [backend.get_input_tensor_by_name(r, "image").as_numpy() for r in requests]
        logits = self.session.run(["logits"], {{"image": np.concatenate(parts)}})[0]
        answers, at = [], 0
        for part in parts:
            tensor = backend.Tensor("logits", logits[at : at + len(part)])
            answers.append(backend.InferenceResponse([tensor]))
            at += len(part)
        return answers
"""


def why_not() -> str | None:
    """Why there is no real Triton here, in words."""
    if not (_SERVER / "bin" / "tritonserver").exists():
        return f"there is no Triton in {VENV}; {INSTALL}"
    return None


class RealTriton:
    """One server over one model repository; `start` and `kill` as often as wanted."""

    def __init__(self, folder: Path, bundle: Path, variant: str) -> None:
        opened = open_bundle(bundle)
        manifest = opened.manifest
        (chosen,) = [v for v in manifest.variants if v.key == variant]
        image = ",".join(map(str, manifest.inputs[0].shape))
        model = folder / "models" / manifest.name
        (model / "1").mkdir(parents=True)
        (model / "1" / "model.py").write_text(
            _MODEL.format(packages=_PACKAGES, graph=bundle / chosen.file.path)
        )
        (model / "config.pbtxt").write_text(
            f'name: "{manifest.name}"\nbackend: "python"\nmax_batch_size: {_BATCH_MAX}\n'
            f'input [{{ name: "image" data_type: TYPE_UINT8 dims: [{image}] }}]\n'
            f'output [{{ name: "logits" data_type: TYPE_FP32 dims: [{len(manifest.labels)}] }}]\n'
            "dynamic_batching { max_queue_delay_microseconds: 100 }\n"
            "instance_group [{ count: 1 kind: KIND_CPU }]\n"
        )
        shutil.copytree(_SERVER / "backends" / "python", folder / "backends" / "python")
        stub = _SERVER / "python_backend_stubs" / _PYTHON[6:] / "triton_python_backend_stub"
        shutil.copy(stub, folder / "backends" / "python")
        self._folder = folder
        self._ports = [_free_port() for _ in range(3)]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._ports[0]}"

    def start(self) -> None:
        http, grpc, metrics = map(str, self._ports)
        libraries = f"{_PACKAGES / 'nvidia_pytriton.libs'}:{sysconfig.get_config_var('LIBDIR')}"
        log = (self._folder / "log").open("ab")
        self.process = subprocess.Popen(
            [
                str(_SERVER / "bin" / "tritonserver"),
                f"--model-repository={self._folder / 'models'}",
                f"--backend-directory={self._folder / 'backends'}",
                "--http-address=127.0.0.1", f"--http-port={http}",
                "--grpc-address=127.0.0.1", f"--grpc-port={grpc}",
                "--metrics-address=127.0.0.1", f"--metrics-port={metrics}",
            ],
            stdout=log, stderr=log,
            env={
                "PATH": f"{VENV / 'bin'}:/usr/bin:/bin", "VIRTUAL_ENV": str(VENV),
                "PYTHONPATH": str(_PACKAGES),
                # its stub would otherwise load the system's libpython
                "LD_LIBRARY_PATH": libraries,
            },
        )  # fmt: skip
        log.close()
        self._until_ready()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(30)
            self.process = None

    def _until_ready(self) -> None:
        """It tells nobody when it is up, so it has to be asked."""
        assert self.process is not None
        while self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/v2/health/ready", timeout=1) as answer:
                    if answer.status == 200:
                        return
            except (OSError, urllib.error.HTTPError):
                pass
            try:
                self.process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        raise AssertionError((self._folder / "log").read_text()[-4000:])


@contextmanager
def triton(folder: Path, bundle: Path, variant: str) -> Iterator[RealTriton]:
    server = RealTriton(folder, bundle, variant)
    try:
        server.start()
        yield server
    finally:
        server.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
