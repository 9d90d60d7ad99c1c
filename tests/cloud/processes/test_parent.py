"""Real processes: one parent, two serving children, one broker, one port."""

import contextlib
import json
import os
import select
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.workers import DEADLINE_S, Device, Worker


@contextlib.contextmanager
def two(folder: Path) -> Iterator[Worker]:
    worker = Worker(folder, config="processes = 2\nnotice_s = 0")
    try:
        yield worker.ready()
    finally:
        worker.process.kill()  # its children and the broker end with it
        worker.process.wait(DEADLINE_S)
        assert worker.process.stdout is not None
        worker.process.stdout.close()


def _children(pid: int) -> dict[int, str]:
    """Process ids to command lines."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        line = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        found[int(child)] = line
    return found


def _serving(pid: int) -> list[int]:
    return [child for child, line in _children(pid).items() if "--child" in line]


def _until_gone(pids: list[int]) -> None:
    """Each by its own handle, which the kernel makes readable when it ends."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handle = os.pidfd_open(pid)
            with os.fdopen(handle, "rb", closefd=True):
                ready, _, _ = select.select([handle], [], [], DEADLINE_S)
                assert ready, f"process {pid} is still there"


def _post(worker: Worker, path: str) -> object:
    request = urllib.request.Request(worker.api + path, b"{}", method="POST")
    with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
        return json.load(answer)


def test_both_answer_on_one_port_and_over_mqtt_and_tell_of_each_other(tmp_path: Path) -> None:
    with two(tmp_path) as worker:
        device = Device(worker.address)
        for label in (0, 1, 2):
            device.send_image(label)
            device.receive()
        device.close()
        status = json.loads(worker.get("/v1/status")[1])
        text = worker.get("/metrics")[1]
        assert (status["processes"], status["ready"]) == (2, True)
        received = [
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.startswith("hybridge_received_total{")
        ]
        assert len(received) == 2
        assert sum(received) == 3


def test_a_model_is_unloaded_and_loaded_in_each(tmp_path: Path) -> None:
    with two(tmp_path) as worker:
        for verb, state in (("unload", "UNAVAILABLE"), ("load", "READY")):
            _post(worker, f"/v2/repository/models/tiny-cloud/{verb}")
            for _ in range(8):  # each a connection of its own, so to either process
                (entry,) = _post(worker, "/v2/repository/index")  # type: ignore[misc]
                assert entry["state"] == state


def test_sigterm_ends_all_of_them_with_code_0(tmp_path: Path) -> None:
    with two(tmp_path) as worker:
        children = list(_children(worker.process.pid))
        assert len(children) == 3  # two that serve, and the broker
        worker.process.terminate()
        assert worker.process.wait(DEADLINE_S) == 0
        _until_gone(children)


@pytest.mark.parametrize("victim", ["serving", "broker"])
def test_one_that_is_killed_takes_all_down(tmp_path: Path, victim: str) -> None:
    with two(tmp_path) as worker:
        children = _children(worker.process.pid)
        killed = next(
            pid for pid, line in children.items() if ("--child" in line) == (victim == "serving")
        )
        os.kill(killed, signal.SIGKILL)
        assert worker.process.wait(DEADLINE_S) == 1
        _until_gone(list(children))
        assert "part_died" in worker.log.read_text()


def test_a_sighup_while_they_start_ends_nobody(tmp_path: Path) -> None:
    worker = Worker(tmp_path, config="processes = 2\nnotice_s = 0")
    try:
        while len(_serving(worker.process.pid)) < 2:
            assert worker.process.poll() is None
        worker.process.send_signal(signal.SIGHUP)
        worker.ready()
        assert worker.get("/v2/health/ready")[0] == 200
        worker.process.terminate()
        assert worker.process.wait(DEADLINE_S) == 0
    finally:
        worker.process.kill()
        worker.process.wait(DEADLINE_S)
        assert worker.process.stdout is not None
        worker.process.stdout.close()


def test_a_parent_that_is_killed_leaves_nobody_behind(tmp_path: Path) -> None:
    with two(tmp_path) as worker:
        children = list(_children(worker.process.pid))
        worker.process.kill()
        worker.process.wait(DEADLINE_S)
        _until_gone(children)
