"""kill -9 of the process that writes: what was said to be on disk is there, and batches are whole."""

import random
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from cloud.broker.store.database import Database
from tests.cloud.broker.store.batches import Model, model_of, traffic

_WRITER = Path(__file__).with_name("killed_writer.py")


def test_nothing_said_to_be_on_disk_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, rng, model, found = tmp_path / "broker.db", random.Random(7), Model(), 0
    for _ in range(6):
        command = [sys.executable, str(_WRITER), str(path), str(found + 1)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            said = [writer.stdout.readline() for _ in range(rng.randint(1, 60))]
            time.sleep(rng.random() * 0.003)  # waits for nothing: any point of a commit may be hit
            writer.kill()
            said += writer.stdout.readlines()
        printed = [int(line) for line in said if line.endswith("\n")]
        with closing(Database(path, "full")) as database:
            loaded = model_of(database.load())
        last, found = found, int(loaded.sessions["count"].expiry_s)
        assert printed[-1] <= found <= printed[-1] + 1
        for number in range(last + 1, found + 1):
            model.write(traffic(number))
        assert loaded == model
    assert not caplog.records
