"""Start a peer, wait until its answer is right, end it with all that it started."""

import http.client
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from shared.errors import Unavailable
from simulations.serve_bench import process
from simulations.serve_bench.model import Material
from simulations.serve_bench.peers import REPOSITORY, Launch, Peer, Place
from simulations.serve_bench.servers.session import MODEL, PORT, WORKERS
from simulations.serve_bench.wire_forms import Request, answer, request

_START_S: Final = 60.0
_TOLERANCE: Final = 1e-3
_QUIET: Final = {
    "BENTOML_DO_NOT_TRACK": "True", "DO_NOT_TRACK": "1", "ORT_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Server:
    """One that answers."""

    name: str
    url: str
    root: int
    mark: str
    started_s: float
    log: Path

    def last_words(self) -> str:
        """The end of what it logged."""
        return _tail(self.log)

    @property
    def pids(self) -> set[int]:
        return process.members(self.root, self.mark)


@contextmanager
def peer_running(peer: Peer, material: Material, folder: Path) -> Iterator[Server]:
    """Run it until the block ends; `folder` is its own. Raises `Unavailable` with why it is not."""
    folder.mkdir(parents=True)
    place = Place(peer.python, folder, free_ports())
    env = {MODEL: str(material.onnx), PORT: str(place.port), WORKERS: str(peer.workers)}
    launch = peer.launch(place)
    asked = request(peer.form, peer.path, material.sample)
    with running(peer.name, Launch(launch.argv, {**env, **launch.env}), place, asked) as server:
        if peer.answers_right:
            check(server.url, asked, material)
        yield server


@contextmanager
def running(
    name: str, launch: Launch, place: Place, asked: Request, says: bytes = b""
) -> Iterator[Server]:
    """Run it; it is ready when it has said `says` and answers `asked` with 2xx."""
    mark = secrets.token_hex(8)
    env = {
        **os.environ, **_QUIET, "PYTHONPATH": str(REPOSITORY),
        "PATH": f"{place.python.parent}:{os.environ['PATH']}", **launch.env, process.MARK: mark,
    }  # fmt: skip
    log = place.folder / "log"
    began = time.monotonic()
    with log.open("wb") as file:
        started = subprocess.Popen(  # noqa: S603  a program of the table, no shell
            launch.argv, env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            cwd=place.folder, start_new_session=True,
        )  # fmt: skip
    url = f"http://127.0.0.1:{place.port}"
    try:
        _wait_ready(started, url, asked, log, says)
        yield Server(name, url, started.pid, mark, time.monotonic() - began, log)
    finally:
        process.end(started, mark)


def check(url: str, asked: Request, material: Material) -> None:
    """Raises `Unavailable` for an answer that is not ONNX Runtime's."""
    status, headers, body = post(url, asked)
    if not 200 <= status < 300:
        raise Unavailable(f"it answered {status}: {body[:200]!r}")
    try:
        got = answer(headers, body)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise Unavailable(f"its answer cannot be read: {error}") from error
    if got.shape != material.answer.shape or not np.allclose(got, material.answer, atol=_TOLERANCE):
        raise Unavailable(f"its answer is wrong: {got.tolist()}")


def post(url: str, asked: Request) -> tuple[int, dict[str, str], bytes]:
    """Give status, headers by lower-case name, body. Raises OSError or HTTPException."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    try:
        connection.request("POST", asked.path, asked.body, dict(asked.headers))
        got = connection.getresponse()
        return got.status, {k.lower(): v for k, v in got.getheaders()}, got.read()
    finally:
        connection.close()


def free_ports() -> tuple[int, int, int]:
    """Three ports that nobody has now, from those that the system gives away."""
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        for each in (one, two, three):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1], three.getsockname()[1]


def _wait_ready(
    started: "subprocess.Popen[bytes]", url: str, asked: Request, log: Path, says: bytes
) -> None:
    """Ask until it answers: most of these servers do not say when they are ready."""
    why = "it never listened"
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if started.poll() is not None:
            why = f"it ended with {started.returncode}"
            break
        try:
            status, _, body = post(url, asked)
        except (OSError, http.client.HTTPException) as error:
            why = f"it did not answer: {error}"
        else:
            if 200 <= status < 300 and says in log.read_bytes():
                return
            why = f"it answered {status}: {body[:120]!r}"
        time.sleep(0.2)
    raise Unavailable(f"{why}; its log ends: {_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_bytes()[-600:].decode(errors="replace").strip()
