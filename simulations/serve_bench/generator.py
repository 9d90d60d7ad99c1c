"""Run the open loop's generator against a server, and watch meanwhile."""

import json
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from shared.errors import Unavailable
from simulations.serve_bench.accounting import Outcomes
from simulations.serve_bench.arrivals import Stretch
from simulations.serve_bench.peers import REPOSITORY
from simulations.serve_bench.wire_forms import Request

CONNECTIONS: Final = 256
"""More than are ever in hand, as long as refusals come soon."""


@dataclass(frozen=True, slots=True)
class Running:
    """`at` waits until so many seconds of the load are over, or it has ended."""

    process: "subprocess.Popen[str]"
    began: float
    """On `time.monotonic`."""

    def at(self, seconds: float) -> None:
        left = self.began + seconds - time.monotonic()
        try:
            self.process.wait(max(0.0, left))
        except subprocess.TimeoutExpired:
            return


def run(
    url: str, asked: Request, stretches: Sequence[Stretch], folder: Path, *,
    prefix: tuple[str, ...] = (), meanwhile: Callable[[Running], None] = lambda _: None,
    seed: int = 1,
) -> Outcomes:  # fmt: skip
    """Load `url` with `asked`; call `meanwhile` once it has begun. Raises `Unavailable`."""
    host, _, port = url.removeprefix("http://").partition(":")
    out = folder / "open-loop.npz"
    order = {
        "host": host, "port": int(port), "connections": CONNECTIONS, "seed": seed, "out": str(out),
        "message": b64encode(asked.head(f"{host}:{port}") + asked.body).decode(),
        "stretches": [(one.per_second, one.seconds) for one in stretches],
    }  # fmt: skip
    with _started(prefix, json.dumps(order)) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if line:
            meanwhile(Running(process, json.loads(line)["began"]))
        if process.wait() or not line:
            raise Unavailable(f"the load generator ended with {process.returncode}")
    with np.load(out) as found:
        return Outcomes(
            due=found["due"], sent=found["sent"], done=found["done"],
            status=found["status"].astype(np.int64),
        )  # fmt: skip


@contextmanager
def _started(prefix: tuple[str, ...], order: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(  # noqa: S603  our own module
        [*prefix, sys.executable, "-m", "simulations.serve_bench.open_loop"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY,
    ) as process:  # fmt: skip
        try:
            assert process.stdin is not None
            process.stdin.write(order)
            process.stdin.close()
            yield process
        finally:
            if process.poll() is None:
                process.kill()
