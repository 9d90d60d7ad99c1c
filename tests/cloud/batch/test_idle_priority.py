"""What the kernel is asked for, and what that gives: a neighbour hardly notices."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any

import pytest

from cloud.batch.idle_priority import to_idle

linux = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="Linux only")
_CHILD = """
import os, threading
from cloud.batch.idle_priority import to_idle
ready, done = threading.Event(), threading.Event()
thread = threading.Thread(target=done.wait)
thread.start()
print(to_idle())
later = threading.Thread(target=done.wait)
later.start()
for tid in sorted(map(int, os.listdir("/proc/self/task"))):
    print(os.sched_getscheduler(tid) == os.SCHED_IDLE, os.getpriority(os.PRIO_PROCESS, tid))
done.set()
"""
_SPIN = """
import sys
from cloud.batch.idle_priority import to_idle
if sys.argv[1] == "idle":
    to_idle()
print("ready", flush=True)
while True:
    pass
"""


@linux
def test_every_thread_gives_way_those_before_and_those_after() -> None:
    said = subprocess.run(
        [sys.executable, "-c", _CHILD], capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
    assert said == ["nice 19, SCHED_IDLE", "True 19", "True 19", "True 19"]


@linux
@pytest.mark.parametrize("session", ["the same session", "a session of its own"])
def test_a_neighbour_on_the_same_core_keeps_nearly_all_of_it(session: str) -> None:
    """Both are bound to one core. Without giving way each would get half of it."""
    core = min(os.sched_getaffinity(0))
    shares = {}
    for how in ("idle", "normal"):
        words = [sys.executable, "-c", _SPIN, how]
        own = session != "the same session"
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, start_new_session=own
        ) as spinning:
            try:
                assert spinning.stdout is not None
                assert spinning.stdout.readline() == "ready\n"
                os.sched_setaffinity(spinning.pid, {core})
                shares[how] = _ratio_of_cpu(spinning.pid, core)
            finally:
                spinning.kill()
    assert shares["idle"] < 0.1, shares
    assert shares["idle"] < shares["normal"] / 4, shares


def _ratio_of_cpu(other: int, core: int) -> float:
    """CPU that `other` gets beside a thread of ours that needs 0.3 s of it, per second of ours."""
    result: list[float] = []

    def work() -> None:
        os.sched_setaffinity(0, {core})  # this thread's
        before = _cpu_s(other)
        began = time.thread_time()
        while time.thread_time() - began < 0.3:
            pass
        result.append((_cpu_s(other) - before) / 0.3)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return result[0]


def _cpu_s(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


@linux
def test_it_says_what_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuses)
    monkeypatch.setattr(os, "setpriority", refuses)
    assert to_idle() == "nothing"


def waiting_batch(folder: Path) -> list[str]:
    """Outside of its hours, so it waits and opens no model."""
    (folder / "in").mkdir()
    opens = datetime.now(UTC) + timedelta(hours=6)
    return [
        sys.executable, "-m", "cloud.cli", "batch", "run", str(folder / "in"), str(folder / "out"),
        "--bundle", str(folder), "--json", "--time-zone", "UTC",
        "--window", f"{opens:%H:%M}-{opens + timedelta(hours=1):%H:%M}",
    ]  # fmt: skip


def next_event(output: IO[str], event: str) -> dict[str, Any]:
    for line in output:
        if (said := json.loads(line))["event"] == event:
            return dict(said)
    raise AssertionError(f"no {event}")


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="sessions are no matter here")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_command_has_a_session_of_its_own_and_ends_with_who_started_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    with subprocess.Popen(waiting_batch(tmp_path), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            begun = next_event(process.stdout, "begun")
            assert begun["priority"] == "nice 19, SCHED_IDLE, session nice 19"
            os.kill(process.pid, number)
            assert next_event(process.stdout, "ended")["how"] == "stopped"
            assert process.wait(60) == (4 if number == signal.SIGTERM else -signal.SIGKILL)
        finally:
            process.kill()
