"""Run load generators against a server, and watch meanwhile."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import numpy as np

import cloud
from cloud.capacity.load.arrivals import Stretch
from cloud.capacity.load.order import Messages, Order
from cloud.capacity.load.outcomes import Outcomes
from shared.errors import Malformed, Unavailable

CONNECTIONS: Final = 256
"""More than are ever in hand, as long as refusals come soon."""
_IMPORTS_FROM: Final = Path(cloud.__file__).parents[1]
Process = subprocess.Popen  # of str


@dataclass(frozen=True, slots=True)
class Running:
    """`at` waits until so many seconds of the load are over, or it has ended."""

    process: "Process[str]"
    began: float
    """On `time.monotonic`."""

    def at(self, seconds: float) -> None:
        left = self.began + seconds - time.monotonic()
        try:
            self.process.wait(max(0.0, left))
        except subprocess.TimeoutExpired:
            return


def address(url: str) -> tuple[str, int]:
    """Host and port of `http://host:port`; raises `Malformed` for any other."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Malformed(f"{url[:200]!r}: {error}; write it as http://host:port") from error
    if parts.scheme != "http" or not host or parts.path.strip("/") or parts.query:
        raise Malformed(
            f"{url[:200]!r}: a load is made over plain http://host:port, without a path; measure a "
            "worker itself, not what stands before it"
        )
    return host, port or 80


def run(
    url: str, messages: Messages, stretches: Sequence[Stretch], folder: Path, *,
    connections: int = CONNECTIONS, generators: int = 1, prefix: tuple[str, ...] = (),
    meanwhile: Callable[[Running], None] = lambda _: None, seed: int = 1, patience_s: float = 5.0,
) -> Outcomes:  # fmt: skip
    """Load `url` from `generators` processes that share rate and connections; `prefix` may pin them.

    `meanwhile` is called once they have begun. What is not answered `patience_s` after the last was
    due counts as not answered: longer than any deadline of `cloud.api` but those asked for. Raises `Malformed` or `Unavailable`.
    """
    if sys.platform != "linux":
        raise Unavailable("the load generator needs Linux (timerfd_create); run it there")
    host, port = address(url)
    each = [Stretch(one.per_second / generators, one.seconds) for one in stretches]
    outs = [(folder / f"open-loop-{number}.npz").absolute() for number in range(generators)]
    # superposed Poisson processes are one of their rates' sum
    orders = [
        Order(
            host, port, messages, each, max(1, connections // generators),
            seed * 1000 + number, patience_s, str(out),
        )
        for number, out in enumerate(outs)
    ]  # fmt: skip
    with ExitStack() as stack:
        started = [_start(prefix, order, stack) for order in orders]
        began = [_began(process) for process in started]
        meanwhile(Running(started[0], max(began)))
        for process in started:
            if process.wait():
                raise Unavailable(f"a load generator ended with {process.returncode}")
    return Outcomes.together([_read(out) for out in outs])


def _start(prefix: tuple[str, ...], order: Order, stack: ExitStack) -> "Process[str]":
    process = subprocess.Popen(  # noqa: S603  our own module
        [*prefix, sys.executable, "-m", "cloud.capacity.load.open_loop"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=_IMPORTS_FROM,
    )  # fmt: skip
    stack.callback(_end, process)
    assert process.stdin is not None
    process.stdin.write(order.text())
    process.stdin.close()
    return process


def _began(process: "Process[str]") -> float:
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    if not line:
        words = process.stderr.read().strip().splitlines() or ["no reason given"]
        raise Unavailable(f"the load generator did not begin: {words[-1][:300]}")
    return float(json.loads(line)["began"])


def _end(process: "Process[str]") -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def _read(path: Path) -> Outcomes:
    with np.load(path) as found:
        return Outcomes(
            due=found["due"], noticed=found["noticed"], sent=found["sent"], done=found["done"],
            status=found["status"].astype(np.int64),
        )  # fmt: skip
