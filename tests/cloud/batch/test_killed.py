"""kill -9 at random moments, and run again: complete, byte for byte, every row once."""

import json
import random
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.cloud.batch.images import lines, noise, npy, tiny_bundle, write_inputs, written

DEADLINE_S = 120.0
KILLS = 6


def batch(folder: Path, out: Path) -> list[str]:
    return [
        sys.executable, "-m", "cloud.cli", "batch", "run", str(folder / "in"), str(out),
        "--bundle", str(tiny_bundle(folder)), "--engine", "onnxruntime/fp32", "--batch-size", "4",
        "--part-rows", "10", "--json", "--no-give-way",
    ]  # fmt: skip


def kill_within(words: list[str], rng: random.Random, seconds: float) -> bool:
    """Kill it up to so long after it has begun to work; whether it was still there to kill."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            if json.loads(line)["event"] == "progress":
                break
        with suppress(subprocess.TimeoutExpired):
            process.wait(rng.uniform(0, seconds))
        process.kill()
        return process.wait() == -signal.SIGKILL


def test_killed_and_run_again_until_complete(tmp_path: Path) -> None:
    rows = write_inputs(tmp_path / "in")
    (tmp_path / "in" / "many.npy").write_bytes(npy(noise(4_000)))
    rows["many.npy"] = 4_000
    finished = subprocess.run(
        batch(tmp_path, tmp_path / "whole"), timeout=DEADLINE_S, check=False, capture_output=True
    )
    assert finished.returncode == 1, finished.stderr  # two inputs are bad

    rng, killed = random.Random(23), 0
    for _ in range(KILLS):
        killed += kill_within(batch(tmp_path, tmp_path / "out"), rng, 0.2)
        said = [(line["name"], line["row"]) for line in lines(tmp_path / "out")]
        assert len(set(said)) == len(said)
    assert killed >= KILLS // 2
    subprocess.run(
        batch(tmp_path, tmp_path / "out"), timeout=DEADLINE_S, check=False, capture_output=True
    )
    assert written(tmp_path / "out") == written(tmp_path / "whole")
    said = [(line["name"], line["row"]) for line in lines(tmp_path / "out")]
    assert said == [(name, row) for name in sorted(rows) for row in range(rows[name])]
