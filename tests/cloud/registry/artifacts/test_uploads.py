"""What holds for uploads whatever the store: kill -9, bounds, a full disk, hashes kept."""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from cloud.registry.artifacts.artifacts import Artifacts
from cloud.registry.artifacts.settings import ArtifactSettings
from cloud.registry.artifacts.staged_file import StagedFile, staged_files
from shared.errors import Conflict, NotTrusted, Overloaded, TooLarge, Unavailable
from tests.cloud.registry.artifacts.sending import PIECE

CONTENT = bytes(range(251)) * 33_430  # eight mebibytes, and no period that hides a wrong offset


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


SHA = sha(CONTENT)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def store(folder: Path, **settings: Any) -> Artifacts:
    return Artifacts(ArtifactSettings(**settings), folder)


async def pieces(content: bytes, size: int = 65_536) -> AsyncIterator[bytes]:
    for at in range(0, len(content), size):
        yield content[at : at + size]


def begin(artifacts: Artifacts, content: bytes, sent: int) -> None:
    run(artifacts.uploads.append(sha(content), len(content), 0, pieces(content[:sent])))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "artifacts").rglob("*") if path.is_file())


@contextlib.contextmanager
def sending(folder: Path, offset: int) -> Iterator[subprocess.Popen[bytes]]:
    arguments = [str(folder), SHA, str(len(CONTENT)), str(offset)]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cloud.registry.artifacts.sending", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def test_killed_in_the_middle_it_goes_on_where_it_stood(tmp_path: Path) -> None:
    at = 0
    for sent in (3, 2):
        with sending(tmp_path, at) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(CONTENT[at : at + sent * PIECE])
            process.stdin.flush()
            while process.stdout.readline() != b"at %d\n" % (sent * PIECE):
                pass
            with pytest.raises(Conflict, match="somebody else is sending it"):
                run(store(tmp_path).uploads.append(SHA, len(CONTENT), at, pieces(b"")))
            process.kill()
            process.wait()
        stands = run(store(tmp_path).uploads.offset(SHA))
        assert at + (sent - 1) * PIECE <= stands <= at + sent * PIECE
        assert run(store(tmp_path).has([SHA])) == set()
        at = stands
    with sending(tmp_path, at) as process:
        out, _ = process.communicate(CONTENT[at:])
        assert out.splitlines()[-1] == b"done %d" % len(CONTENT)
    assert run(store(tmp_path).read(SHA, len(CONTENT))) == CONTENT
    assert files(tmp_path) == [SHA]


def test_killed_between_the_last_byte_and_the_move(tmp_path: Path) -> None:
    begin(store(tmp_path), CONTENT, len(CONTENT) - 1)
    (staged,) = staged_files(tmp_path / "artifacts" / "uploads")
    staged.path.write_bytes(CONTENT)
    artifacts = store(tmp_path)
    assert run(artifacts.uploads.offset(SHA)) == len(CONTENT)
    assert run(artifacts.uploads.append(SHA, len(CONTENT), len(CONTENT), pieces(b""))) == len(
        CONTENT
    )
    assert files(tmp_path) == [SHA]


def test_an_upload_that_is_ended_days_later_has_its_whole_grace(tmp_path: Path) -> None:
    begin(store(tmp_path), CONTENT, len(CONTENT) - 1)
    (staged,) = staged_files(tmp_path / "artifacts" / "uploads")
    staged.path.write_bytes(CONTENT)
    os.utime(staged.path, (1, 1))
    artifacts = store(tmp_path)
    run(artifacts.uploads.append(SHA, len(CONTENT), len(CONTENT), pieces(b"")))
    assert run(artifacts.collect(set(), dry_run=False, now=time.time())).young == 1


def test_what_changed_on_disk_meanwhile_is_dropped(tmp_path: Path) -> None:
    begin(store(tmp_path), CONTENT, 100)
    (staged,) = staged_files(tmp_path / "artifacts" / "uploads")
    staged.path.write_bytes(bytes(100))
    with pytest.raises(NotTrusted):
        run(store(tmp_path).uploads.append(SHA, len(CONTENT), 100, pieces(CONTENT[100:])))
    assert files(tmp_path) == []


def test_a_process_that_goes_on_hashes_nothing_twice(tmp_path: Path) -> None:
    """Else an upload in a thousand requests would read its beginning a thousand times."""
    artifacts = store(tmp_path)
    begin(artifacts, CONTENT, 5_000_000)
    (staged,) = staged_files(tmp_path / "artifacts" / "uploads")
    staged.path.write_bytes(bytes(5_000_000))  # the hash that it keeps does not see this
    run(artifacts.uploads.append(SHA, len(CONTENT), 5_000_000, pieces(CONTENT[5_000_000:])))
    assert run(artifacts.has([SHA])) == {SHA}
    assert not run(artifacts.verify(SHA))


def test_as_many_uploads_as_the_bound(tmp_path: Path) -> None:
    artifacts = store(tmp_path, uploads_max=2)
    for number in range(2):
        begin(artifacts, b"%d" % number * 10, 3)
    with pytest.raises(Overloaded, match="2 unfinished uploads of 20 bytes"):
        begin(artifacts, b"third", 3)
    begin_again = artifacts.uploads.append(sha(b"0" * 10), 10, 3, pieces(b"0" * 7))
    assert run(begin_again) == 10
    begin(artifacts, b"third", 3)


def test_uploads_begun_and_left_give_way_when_there_is_no_room(tmp_path: Path) -> None:
    artifacts = store(tmp_path, uploads_max=3)
    for content in (b"left longest", b"left later", b"at work"):
        begin(artifacts, content, 3)
    minutes = {"left longest": 40, "left later": 20, "at work": 1}
    folder = tmp_path / "artifacts" / "uploads"
    for name, age in minutes.items():
        (path,) = folder.glob(f"{sha(name.encode())}.*.part")
        os.utime(path, (time.time() - age * 60,) * 2)

    def there() -> set[str]:
        return {name for name in (*minutes, "1", "2", "3") for one in staged_files(folder)
                if one.sha256 == sha(name.encode())}  # fmt: skip

    (path,) = folder.glob(f"{sha(b'left longest')}.*.part")
    with path.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # somebody writes it just now
        begin(artifacts, b"1", 0)
    assert run(artifacts.uploads.offset(sha(b"left later"))) is None
    begin(artifacts, b"2 ", 1)
    assert there() == {"left longest", "at work"}
    begin(artifacts, b"3 ", 1)
    assert run(artifacts.uploads.offset(sha(b"left longest"))) is None
    with pytest.raises(Overloaded, match="gives way to a new one after 15 min"):
        begin(artifacts, b"4 ", 1)
    assert there() == {"at work"}


def test_forgotten_uploads_keep_nobody_out(tmp_path: Path) -> None:
    artifacts = store(tmp_path, uploads_max=1)
    begin(artifacts, b"forgotten!", 3)
    (staged,) = staged_files(tmp_path / "artifacts" / "uploads")
    os.utime(staged.path, (1, 1))
    begin(artifacts, b"new", 2)
    assert [one.sha256 for one in staged_files(staged.path.parent)] == [sha(b"new")]


def test_as_many_bytes_as_the_bound_by_what_they_say(tmp_path: Path) -> None:
    artifacts = store(tmp_path, uploads_bytes_max=1000)
    begin(artifacts, b"a" * 600, 1)
    with pytest.raises(Overloaded, match="1 unfinished uploads of 600 bytes"):
        begin(artifacts, b"b" * 401, 1)
    begin(artifacts, b"b" * 400, 1)


def test_refused_uploads_leave_no_file(tmp_path: Path) -> None:
    artifacts = store(tmp_path, uploads_max=1, bytes_max=1000)
    with pytest.raises(TooLarge, match="one artifact has 1000 at most"):
        begin(artifacts, b"a" * 1001, 0)
    with pytest.raises(TooLarge, match="at most"):
        run(artifacts.put_bytes(b"a" * 1001))
    with pytest.raises(Conflict, match="stands at 0 bytes, not 5"):
        run(artifacts.uploads.append(sha(b"a" * 10), 10, 5, pieces(b"")))
    begin(artifacts, b"a" * 10, 0)
    assert files(tmp_path) == []


def test_an_upload_begun_with_another_size_starts_anew(tmp_path: Path) -> None:
    artifacts = store(tmp_path)
    run(artifacts.uploads.append(SHA, 77, 0, pieces(b"lies")))
    assert run(artifacts.uploads.append(SHA, len(CONTENT), 0, pieces(CONTENT))) == len(CONTENT)
    assert files(tmp_path) == [SHA]


def test_a_disk_with_too_little_room_is_said_before_a_byte_is_sent(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    artifacts = store(tmp_path, free_bytes_min=free + 2**40)
    with pytest.raises(
        Unavailable, match=r"no room for \d+ with \d+ to spare; make room, or run gc"
    ):
        begin(artifacts, CONTENT, 10)
    with pytest.raises(Unavailable, match="make room, or run gc"):
        run(artifacts.put_bytes(CONTENT))
    assert files(tmp_path) == []


def test_room_that_other_uploads_will_take_is_not_free(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    artifacts = store(tmp_path, bytes_max=2**50, uploads_bytes_max=2**60, free_bytes_min=0)
    run(artifacts.uploads.append("a" * 64, free - 2**28, 0, pieces(b"begin")))
    with pytest.raises(Unavailable, match="for other uploads"):
        run(artifacts.uploads.append("b" * 64, 2**30, 0, pieces(b"begin")))


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """The kernel then refuses a write in the middle, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_in_the_middle_gets_its_room_back(tmp_path: Path) -> None:
    artifacts = store(tmp_path)
    with (
        files_of_at_most(5 << 20),
        pytest.raises(Unavailable, match="make room, then send it again"),
    ):
        run(artifacts.uploads.append(SHA, len(CONTENT), 0, pieces(CONTENT)))
    assert files(tmp_path) == []
    with (
        files_of_at_most(5 << 20),
        pytest.raises(Unavailable, match="make room, then send it again"),
    ):
        run(artifacts.put_bytes(CONTENT))
    assert files(tmp_path) == []
    begin(artifacts, CONTENT, len(CONTENT))
    assert files(tmp_path) == [SHA]


def test_a_sync_that_fails_drops_what_it_was_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: int) -> None:
        raise OSError(5, "Input/output error")

    artifacts = store(tmp_path)
    begin(artifacts, CONTENT, 5)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises(Unavailable, match="Input/output error"):
            run(artifacts.uploads.append(SHA, len(CONTENT), 5, pieces(CONTENT[5:])))
    assert files(tmp_path) == []
    assert run(artifacts.uploads.offset(SHA)) is None


def test_closed_before_it_was_opened_it_opens_no_more(tmp_path: Path) -> None:
    """The order that a cancelled call's threads may come to."""
    staged = StagedFile(tmp_path, SHA, 10)
    assert not staged.close()
    for work in (staged.lock, lambda: staged.load(None), lambda: staged.write([b"x"])):
        with pytest.raises(Conflict, match="given up"):
            work()
    assert list(tmp_path.iterdir()) == []


def test_a_file_moved_away_between_opening_and_locking(tmp_path: Path) -> None:
    """The writer before has moved it in: what is written to it now would change an artifact."""
    first, second = StagedFile(tmp_path, SHA, 10), StagedFile(tmp_path, SHA, 10)
    first.lock()
    first.load(None)
    first.write([b"x"])
    with second.path.open("a+b", buffering=0) as opened:
        first.move(lambda path: path.rename(tmp_path / "moved") and None)
        first.close()
        assert not second._is_mine(opened)
    with second.path.open("a+b", buffering=0) as opened:
        second.path.rename(tmp_path / "moved as well")
        second.path.touch()  # and a third has begun anew
        assert not second._is_mine(opened)
    second.lock()
    assert second.close() is False


def test_other_files_among_them_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts" / "uploads"
    folder.mkdir(parents=True)
    for name in ("x.part", f"{SHA}.part", f"{SHA}.x.part", "notes.txt"):
        (folder / name).touch()
    assert staged_files(folder) == []
    run(store(tmp_path).collect(set(), dry_run=False, now=1e12))
    assert len(list(folder.iterdir())) == 4


def test_what_a_killed_put_left_goes_with_the_next_collection(tmp_path: Path) -> None:
    folder = tmp_path / "artifacts" / "uploads"
    folder.mkdir(parents=True)
    (folder / f"{SHA}.0123.put").write_bytes(b"half")
    run(store(tmp_path).collect(set(), dry_run=True, now=1e12))
    assert len(list(folder.iterdir())) == 1
    run(store(tmp_path).collect(set(), dry_run=False, now=1e12))
    assert list(folder.iterdir()) == []


def test_a_link_among_the_uploads_is_not_written_through(tmp_path: Path) -> None:
    artifacts, elsewhere = store(tmp_path), tmp_path / "elsewhere"
    begin(artifacts, b"other", 2)
    elsewhere.write_bytes(b"")
    staged = tmp_path / "artifacts" / "uploads" / f"{sha(b'abc')}.3.part"
    staged.symlink_to(elsewhere)
    with pytest.raises(Unavailable, match="symbolic links"):
        begin(artifacts, b"abc", 3)
    assert elsewhere.read_bytes() == b""
    assert sha(b"abc") not in run(artifacts.has([sha(b"abc")]))
    assert [one.sha256 for one in staged_files(staged.parent)] == [sha(b"other")]
