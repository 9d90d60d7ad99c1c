"""Collecting and asking at once, from several processes and threads."""

import asyncio
import hashlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.artifacts.blobs import key
from cloud.registry.artifacts.hash_locks import HashLocks
from cloud.registry.artifacts.settings import ArtifactSettings

NOW = 2_000_000_000.0
SHA = hashlib.sha256(b"old").hexdigest()

_ASKS = """
import asyncio, sys
from pathlib import Path
from cloud.registry.artifacts.hash_locks import HashLocks
with HashLocks(Path(sys.argv[1])).keep(sys.argv[2]):
    print("kept", flush=True)
    sys.stdin.read()
"""


def test_who_was_told_that_it_is_here_finds_it(tmp_path: Path) -> None:
    """A thread collects, and another asks: a yes stands."""
    ours, theirs = (Artifacts(ArtifactSettings(), tmp_path) for _ in range(2))
    path = tmp_path / "artifacts" / key(SHA)
    answers = []
    for _ in range(150):
        asyncio.run(ours.put_bytes(b"old"))
        os.utime(path, (1, 1))
        barrier = threading.Barrier(2)

        def collects(barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            asyncio.run(ours.collect(set(), dry_run=False, now=time.time()))

        thread = threading.Thread(target=collects)
        thread.start()
        barrier.wait()
        here = asyncio.run(theirs.has([SHA])) == {SHA}
        thread.join()
        assert path.exists() == here
        answers.append(here)
    assert len(answers) == 150


def test_another_process_that_is_storing_it(tmp_path: Path) -> None:
    artifacts = Artifacts(ArtifactSettings(), tmp_path)
    asyncio.run(artifacts.put_bytes(b"old"))
    os.utime(tmp_path / "artifacts" / key(SHA), (1, 1))
    with subprocess.Popen(
        [sys.executable, "-c", _ASKS, str(tmp_path / "artifact_locks"), SHA],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == b"kept\n"
        found = asyncio.run(artifacts.collect(set(), dry_run=False, now=NOW))
        assert (found.removed, found.busy) == ((), 1)
        process.kill()  # and the kernel gives the lock back
    found = asyncio.run(artifacts.collect(set(), dry_run=False, now=NOW))
    assert [one.sha256 for one in found.removed] == [SHA]


def test_a_removal_does_not_wait_but_a_question_does(tmp_path: Path) -> None:
    locks = HashLocks(tmp_path)
    asked = threading.Event()

    def asks() -> None:
        with locks.keep(SHA):
            asked.set()

    with locks.remove(SHA) as alone, locks.remove(SHA) as too:
        assert (alone, too) == (True, False)
        thread = threading.Thread(target=asks)
        thread.start()
        with locks.keep("f" * 64):  # of another beginning: not held up
            pass
        assert not asked.is_set()
    thread.join(10)
    assert asked.is_set()
    assert len(list(tmp_path.iterdir())) <= 256
