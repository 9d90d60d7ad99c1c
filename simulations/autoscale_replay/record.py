"""`python -m simulations.autoscale_replay.record`: drive a real worker, and keep what arrived.

The load generator of `hybridge capacity measure` sends the shapes, as Poisson arrivals, to a
`hybridge-cloud serve` that is started for it. What is kept is the worker's own count of requests
that it answered, read from /metrics once a second.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from cloud.capacity.asking import get
from cloud.capacity.load import generator
from cloud.capacity.message import Head, random_messages, read_face
from cloud.capacity.stage_budget import read_times
from simulations.autoscale_replay.shapes import SHAPES, Shape
from simulations.autoscale_replay.trace import Trace, write

TRACES: Final = Path(__file__).parent / "traces"
_ROOT: Final = Path(__file__).parents[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", type=Path, default=_ROOT / "models" / "fashion-cloud")
    parser.add_argument("--out", type=Path, default=TRACES)
    asked = parser.parse_args()
    asked.out.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, _worker(asked.bundle, Path(folder)) as url:
        for make in SHAPES:
            shape = make()
            trace = record(url, asked.bundle.name, shape, Path(folder))
            path = asked.out / f"{shape.name}.csv"
            path.write_text(write(trace, _how(shape)))
            print(f"{path.name}: {sum(trace.requests):,} requests in {len(trace.requests)} s")


def record(url: str, model: str, shape: Shape, folder: Path) -> Trace:
    """Send one shape to the worker at `url`."""
    face = read_face(get(url, f"/v2/models/{model}", None))
    host = url.removeprefix("http://")
    messages = random_messages(face, 1, Head(host, {}), np.random.default_rng(1))
    counts = [_answered(url)]
    times = [0.0]

    def look(running: generator.Running) -> None:
        for second in range(1, round(shape.seconds) + 1):
            running.at(second)
            counts.append(_answered(url))
            times.append(time.monotonic() - running.began)

    generator.run(url, messages, shape.stretches, folder, connections=64, meanwhile=look)
    # what stood at whole seconds, between two looks that came a little late
    at_seconds = np.interp(range(len(times)), times, counts)
    requests = tuple(round(float(n)) for n in np.diff(np.round(at_seconds)))
    return Trace(shape.name, shape.stands_for_s, requests)


def _answered(url: str) -> int:
    return int(read_times(get(url, "/metrics", None).decode())["queue"].count)


@contextlib.contextmanager
def _worker(bundle: Path, folder: Path) -> Iterator[str]:
    process = subprocess.Popen(  # noqa: S603  our own module
        [
            sys.executable, "-m", "cloud", "serve", "--bundle", str(bundle),
            "--state-dir", str(folder / "state"), "--api-port", "0", "--broker-port", "0",
        ],
        cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        yield str(json.loads(process.stdout.readline())["api"])
    finally:
        process.kill()
        process.wait()


def _how(shape: Shape) -> list[str]:
    return [
        f"{shape.name}: recorded {datetime.now(UTC):%Y-%m-%d} by `python -m simulations.autoscale_replay.record`",
        "requests that one hybridge-cloud worker answered, by its own count at /metrics each second",
    ]


if __name__ == "__main__":
    main()
