"""What the kernel is asked for, and what that gives: a neighbour hardly notices."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

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
def test_a_neighbour_on_the_same_core_keeps_nearly_all_of_it() -> None:
    """Both are bound to one core; without giving way each gets half of it."""
    core = min(os.sched_getaffinity(0))
    shares = {}
    for how in ("idle", "normal"):
        words = [sys.executable, "-c", _SPIN, how]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as spinning:
            try:
                assert spinning.stdout is not None
                assert spinning.stdout.readline() == "ready\n"
                os.sched_setaffinity(spinning.pid, {core})
                shares[how] = _ratio_of_cpu(spinning.pid, core)
            finally:
                spinning.kill()
    assert shares["idle"] < 0.05, shares
    assert shares["normal"] > 0.5, shares


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
