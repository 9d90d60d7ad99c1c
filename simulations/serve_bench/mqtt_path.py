"""Escalations through broker and worker, beside the same messages echoed at a bare broker."""

import json
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from shared.bundle.reader import open_bundle
from shared.errors import Unavailable
from shared.new_ids import new_sample_id
from shared.wire.envelope import Escalation, pack_escalation
from shared.wire.pixels import Encoder
from simulations.serve_bench.ours import ours_running
from simulations.serve_bench.overload import BUNDLE, fashion_request
from simulations.serve_bench.peers import REPOSITORY
from simulations.serve_bench.results import MqttPath, MqttRun
from simulations.serve_bench.server import free_ports

EDGE_BUNDLE: Final = "fashion-edge"
DEVICES: Final = 16
WINDOW: Final = 16
"""Of each device: together half of what a worker takes in hand at once."""
PACED: Final = 300
SECONDS: Final = 3.0
_BUDGET_MS: Final = 10_000
Say = Callable[[str], None]


def measure(models: Path, folder: Path, say: Say, *, rounds: int) -> MqttPath:
    """Load worker and echo in turn, each with a broker of its own. Raises `Unavailable`."""
    asked = order(models)
    ports = free_ports()
    runs: dict[int, list[MqttRun]] = {ports[0]: [], ports[1]: []}
    arguments = ("--broker-port", str(ports[0]))
    with (
        ours_running(models / BUNDLE, folder / "mqtt", fashion_request(), arguments=arguments),
        bare_broker(folder / "bare", ports[1], asked),
    ):
        for number in range(rounds):
            for port in ports[:2] if number % 2 == 0 else ports[1::-1]:
                run = load(asked, port)
                runs[port].append(run)
                who = "worker" if port == ports[0] else "bare broker"
                say(
                    f"  {who:11}: {run.per_second:8,.0f}/s  p50 {run.p50_ms:.2f}  p99 {run.p99_ms:.2f} ms"
                )
    return MqttPath(
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"), devices=DEVICES,
        paced_per_second=PACED, worker=tuple(runs[ports[0]]), bare=tuple(runs[ports[1]]),
    )  # fmt: skip


def order(
    models: Path, *, devices: int = DEVICES, window: int = WINDOW, per_second: float = PACED,
    seconds: float = SECONDS,
) -> dict[str, object]:  # fmt: skip
    """Say what the devices' process shall do."""
    return {
        "devices": devices, "window": window, "per_second": per_second, "seconds": seconds,
        "escalation": b64encode(_escalation(models / EDGE_BUNDLE)).decode(), "host": "127.0.0.1",
    }  # fmt: skip


def load(asked: dict[str, object], port: int) -> MqttRun:
    """Run the devices against the broker at `port`. Raises `Unavailable`."""
    ran = subprocess.run(  # noqa: S603  our own module
        _LOAD, input=json.dumps({**asked, "port": port}) + "\n", capture_output=True, text=True,
        check=False, cwd=REPOSITORY,
    )  # fmt: skip
    if ran.returncode:
        raise Unavailable(f"the devices' process: {ran.stderr.strip()[-300:]}")
    return MqttRun.model_validate_json(ran.stdout)


@contextmanager
def bare_broker(folder: Path, port: int, asked: dict[str, object]) -> Iterator[None]:
    """A broker as a worker would start it, with an echo in the worker's place."""
    with _broker(folder, port), _echo({**asked, "echo": True, "port": port}):
        yield


def _escalation(edge: Path) -> bytes:
    """A real one, of the size that this data set's have."""
    bundle = open_bundle(edge)
    manifest = bundle.manifest
    image = np.random.default_rng(5).integers(0, 256, (28, 28), np.uint8)
    payload = Encoder(manifest.payload.codec, bundle.dictionary or b"").encode(image)
    return pack_escalation(
        Escalation(
            new_sample_id(), manifest.name, manifest.version, "escalated", _BUDGET_MS, 0.0, 0, 0.5,
            payload,
        )
    )  # fmt: skip


@contextmanager
def _broker(folder: Path, port: int) -> Iterator[None]:
    """Run the broker that a worker would start, by itself."""
    argv = [
        sys.executable, "-m", "cloud.broker", "--port", str(port), "--state-dir", str(folder),
        "--exit-with-stdin",
    ]  # fmt: skip
    with subprocess.Popen(  # noqa: S603  our own module
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        cwd=REPOSITORY,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise Unavailable("the bare broker did not start")
            yield
        finally:
            process.terminate()


@contextmanager
def _echo(asked: dict[str, object]) -> Iterator[None]:
    with subprocess.Popen(  # noqa: S603  our own module
        _LOAD, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as process:
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.close()
            if process.stdout.readline() != "ready\n":
                raise Unavailable("the echo did not connect")
            yield
        finally:
            process.terminate()


_LOAD: Final = [sys.executable, "-m", "simulations.serve_bench.mqtt_load"]
