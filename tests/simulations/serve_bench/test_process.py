import os
import secrets
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

from simulations.serve_bench import process

FAMILY = """
import os, subprocess, sys, time
if sys.argv[1] == "child":
    print("up", flush=True)  # before that the kernel may still show no environment of it
    time.sleep(600)
env = {} if sys.argv[2] == "scrubs" else None
child = subprocess.Popen([sys.executable, __file__, "child"], env=env, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


class Family:
    """A parent with a child, which carry a mark of their own; `how`: whether the child keeps it."""

    def __init__(self, script: Path, how: str) -> None:
        script.write_text(FAMILY)
        self.mark = secrets.token_hex(8)
        self.parent = subprocess.Popen(
            [sys.executable, script, "parent", how], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, process.MARK: self.mark},
        )  # fmt: skip
        assert self.parent.stdout is not None
        self.child = int(self.parent.stdout.readline())

    def close(self) -> None:
        for pid in process.members(self.parent.pid, self.mark) | {self.child}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.parent.communicate()


def test_a_child_that_scrubbed_its_environment_is_found_and_ended_with_its_parent(
    tmp_path: Path,
) -> None:
    with closing(Family(tmp_path / "family.py", "scrubs")) as family:
        parent, mark = family.parent, family.mark
        assert process.members(parent.pid, mark) == {parent.pid, family.child}
        process.end(parent, mark)
        assert not process._runs(family.child)
        assert parent.poll() is not None


def test_a_child_whose_parent_is_gone_is_found_by_its_mark(tmp_path: Path) -> None:
    with closing(Family(tmp_path / "family.py", "keeps")) as family:
        parent, mark = family.parent, family.mark
        parent.kill()
        parent.wait()
        assert process.members(parent.pid, mark) == {family.child}
        process.end(parent, mark)
        assert not process._runs(family.child)


def test_this_process_has_used_time_and_memory() -> None:
    me = {os.getpid()}
    assert process.cpu_s(me) > 0
    assert process.resident_mb(me) > process.pss_mb(me) > 1
    assert process.machine_busy_s() > process.cpu_s(me)


def test_a_process_that_is_gone_counts_nothing() -> None:
    assert process.cpu_s({2**22 + 1}) == process.pss_mb({2**22 + 1}) == 0
