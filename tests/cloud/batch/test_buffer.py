"""A topic's messages on disk: bounded, once each, there after a kill."""

import multiprocessing
import sqlite3
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from cloud.batch.buffer import Buffer, Message, Put
from shared.errors import Malformed, Unavailable


def buffer(folder: Path, **bounds: int) -> Buffer:
    return Buffer(
        folder / "b.db", **{"messages_max": 10, "bytes_max": 1000, **bounds}, wall=lambda: 7.0
    )


def messages(*contents: bytes) -> list[Message]:
    return [Message("belt/1", content) for content in contents]


def test_what_is_put_is_found_and_read_in_another_life(tmp_path: Path) -> None:
    first = buffer(tmp_path)
    assert first.put(messages(b"a", b"bb")) == Put(2, 0, held=2)
    first.close()
    second = buffer(tmp_path)
    found = second.find()
    assert sorted(second.read(one) for one in found) == [b"a", b"bb"]
    assert all(one.name.startswith("belt/1/") and one.modified == 7.0 for one in found)
    assert second.count() == 2
    second.close()


def test_the_same_content_on_the_same_topic_is_kept_once(tmp_path: Path) -> None:
    kept = buffer(tmp_path)
    assert kept.put(messages(b"a", b"a")) == Put(2, 1, held=1)
    assert kept.put([*messages(b"a"), Message("belt/2", b"a")]) == Put(2, 1, held=2)
    assert kept.count() == 2
    kept.close()


def test_full_by_number_takes_the_first_that_fit(tmp_path: Path) -> None:
    kept = buffer(tmp_path, messages_max=2)
    assert kept.put(messages(b"a", b"b", b"c")) == Put(2, 0, held=2)
    assert kept.put(messages(b"c")) == Put(0, 0, held=2)
    kept.remove([kept.find()[0].name])
    assert kept.put(messages(b"c")) == Put(1, 0, held=2)
    kept.close()


def test_full_by_bytes(tmp_path: Path) -> None:
    kept = buffer(tmp_path, bytes_max=5)
    assert kept.put(messages(b"aaa", b"bb", b"c")) == Put(2, 0, held=2)
    kept.remove(one.name for one in kept.find())
    assert kept.put(messages(b"ccccc")) == Put(1, 0, held=1)
    kept.close()


def test_what_is_gone_is_said_so(tmp_path: Path) -> None:
    kept = buffer(tmp_path)
    kept.put(messages(b"a"))
    (found,) = kept.find()
    kept.remove([found.name])
    with pytest.raises(Malformed, match="gone since it was listed"):
        kept.read(found)
    kept.close()


def _put(folder: Path, number: int) -> None:
    kept = buffer(folder, messages_max=1000, bytes_max=10**6)
    for each in range(20):
        kept.put(messages(b"%d-%d" % (number, each)))
    kept.close()


def _open(folder: Path, together: Barrier) -> None:
    together.wait(60)
    buffer(folder).close()


def test_workers_open_a_new_one_at_the_same_moment(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    together = spawn.Barrier(3)
    for turn in range(3):
        folder = tmp_path / str(turn)
        workers = [spawn.Process(target=_open, args=(folder, together)) for _ in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60)
        assert [worker.exitcode for worker in workers] == [0, 0, 0]


def test_one_that_another_program_holds_is_not_called_damaged(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "b.db", isolation_level=None)) as other:
        other.execute("CREATE TABLE theirs (a)")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(Unavailable, match=r"b.db: database is locked"):
            buffer(tmp_path)


def test_workers_share_it(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_put, args=(tmp_path, number)) for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    kept = buffer(tmp_path)
    assert kept.count() == len(kept.find()) == 40
    kept.close()


def test_a_file_that_is_no_buffer(tmp_path: Path) -> None:
    (tmp_path / "b.db").write_bytes(b"this is something else altogether" * 100)
    with pytest.raises(Malformed, match=r"b.db: not a near-line buffer"):
        buffer(tmp_path)
