import os
import subprocess
import sys

from simulations.serve_bench import process

FAMILY = """
import os, subprocess, sys, time
if sys.argv[1] == "parent":
    env = {} if sys.argv[2] == "scrubs" else None
    child = subprocess.Popen([sys.executable, __file__, "child"], env=env)
    print(child.pid, flush=True)
sys.stdin.read() if sys.argv[1] == "parent" else time.sleep(600)
"""


def _start(tmp_path, mark: str, how: str) -> tuple["subprocess.Popen[bytes]", int]:
    script = tmp_path / "family.py"
    script.write_text(FAMILY)
    parent = subprocess.Popen(
        [sys.executable, script, "parent", how], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, process.MARK: mark},
    )  # fmt: skip
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def _close(parent: "subprocess.Popen[bytes]") -> None:
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.close()
    parent.stdout.close()


def test_a_child_that_scrubbed_its_environment_is_found_and_ended_with_its_parent(tmp_path) -> None:
    parent, child = _start(tmp_path, "scrubbed", "scrubs")
    assert process.members(parent.pid, "scrubbed") == {parent.pid, child}
    process.end(parent, "scrubbed")
    assert not process._runs(child)
    assert parent.poll() is not None
    _close(parent)


def test_a_child_whose_parent_is_gone_is_found_by_its_mark(tmp_path) -> None:
    parent, child = _start(tmp_path, "orphaned", "keeps")
    parent.kill()
    parent.wait()
    assert process.members(parent.pid, "orphaned") == {child}
    process.end(parent, "orphaned")
    assert not process._runs(child)
    _close(parent)


def test_this_process_has_used_time_and_memory() -> None:
    me = {os.getpid()}
    assert process.cpu_s(me) > 0
    assert process.resident_mb(me) > process.pss_mb(me) > 1
    assert process.machine_busy_s() > process.cpu_s(me)


def test_a_process_that_is_gone_counts_nothing() -> None:
    assert process.cpu_s({2**22 + 1}) == process.pss_mb({2**22 + 1}) == 0
