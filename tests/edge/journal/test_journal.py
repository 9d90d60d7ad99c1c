"""The journal on a real file: group commit, restart, a full disk, a killed process."""

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edge.answers import Cursor
from edge.journal import database
from edge.journal.journal import Journal
from edge.journal.rows import Damaged, Pending
from edge.journal.writes import Accepted, Bounds, Closed, GivenUp, Opened
from shared.errors import Malformed
from shared.wire.envelope import Reason
from tests.edge.samples import final, given_up, pending

_WRITER = Path(__file__).with_name("killed_writer.py")


@asynccontextmanager
async def running(path: Path, *, queued_max: int = 20_000) -> AsyncIterator[Journal]:
    journal = Journal(path, Bounds(1000), gap_s_max=60, queued_max=queued_max)
    async with asyncio.TaskGroup() as parts:
        parts.create_task(journal.run())
        yield journal
        journal.drain()


@pytest.mark.parametrize("reason", ["escalated", "audit", "novel"])
def test_a_row_comes_back_as_it_went_in(tmp_path: Path, reason: Reason) -> None:
    async def scenario() -> None:
        p = pending(reason=reason, confidence=0.97, position="img-7.png")
        async with running(tmp_path / "state.db") as journal:
            journal.record(Opened(p))
            assert journal.pending(p.id) == p  # on its way
            await journal.durable()
            assert journal.pending(p.id) == p
            assert journal.find(p.id) == p.answer

    asyncio.run(scenario())


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    async def scenario() -> None:
        kept, answered, lost = pending(), pending(), pending()
        async with running(tmp_path / "state.db") as journal:
            journal.move(Cursor("s", "3"), Opened(kept), Opened(answered), Opened(lost))
            journal.record(Closed(final(answered)))
            journal.record(GivenUp(given_up(lost, "refused_malformed")))
            before = journal.now()
        async with running(tmp_path / "state.db") as journal:
            assert [row.id for row in journal.outbox()] == [kept.id]
            assert journal.find(answered.id) == final(answered)
            assert journal.find(lost.id) == given_up(lost, "refused_malformed")
            assert journal.cursor("s") == "3"
            assert journal.counts() == {"answered": 1, "lost:refused_malformed": 1, "recorded": 3}
            assert before <= journal.now() < before + 60

    asyncio.run(scenario())


@pytest.mark.parametrize(("wall_s", "counts_for"), [(0.0, 60.0), (9e12, 0.0)])
def test_a_clock_that_jumped_over_a_reboot_ages_what_waits_by_a_bounded_amount(
    tmp_path: Path, wall_s: float, counts_for: float
) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "state.db") as journal:
            journal.record(Opened(pending()))
            await journal.durable()
            before = journal.now()
        db = database.connect(tmp_path / "state.db")
        db.execute("UPDATE clock SET boot = 'another', wall_s = ?", (wall_s,))
        db.close()
        async with running(tmp_path / "state.db") as journal:
            assert before + counts_for <= journal.now() + 1 < before + counts_for + 5

    asyncio.run(scenario())


def test_it_says_when_the_disk_is_behind(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "state.db", queued_max=10) as journal:
            journal.record(*(Opened(pending()) for _ in range(5)))
            assert not journal.behind
            journal.record(*(Opened(pending()) for _ in range(5)))
            assert journal.behind
            assert journal.full
            await journal.durable()
            assert not journal.behind
            assert not journal.full

    asyncio.run(scenario())


def _cap(journal: Journal, pages: int) -> None:
    """SQLite then reports a full disk as it would a real one (SQLITE_FULL)."""
    journal._db.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_loses_nothing_that_was_there_and_counts_what_it_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        dropped: list[Pending] = []
        old = pending()
        async with running(tmp_path / "state.db") as journal:
            journal.on_dropped = dropped.extend
            journal.move(Cursor("s", "1"), Opened(old))
            await journal.durable()
            _cap(journal, 1)
            big = [pending(size=100_000) for _ in range(3)]
            for p in big:
                journal.move(Cursor("s", "2"), Opened(p), Accepted(final(pending(size=1))))
                await journal.durable()
            assert dropped == big
            assert journal.counts() == {"lost:disk_full": 6, "recorded": 7}  # before there is room
            assert [row.id for row in journal.outbox()] == [old.id]
            assert _on_disk(tmp_path)[1] == "1"  # its samples are not on record yet

            _cap(journal, 100_000)
            fresh = pending()
            journal.record(Opened(fresh), Closed(final(old)))
            await journal.durable()
            assert journal.counts() == {"answered": 1, "lost:disk_full": 6, "recorded": 8}
            assert [row.id for row in journal.outbox()] == [fresh.id]
        assert _on_disk(tmp_path) == ({"answered": 1, "lost:disk_full": 6, "recorded": 8}, "2")

    asyncio.run(scenario())
    lines = [record.message for record in caplog.records]
    assert lines.count("disk_full") == 1
    assert lines.count("disk_has_room_again") == 1


def test_answers_wait_for_room(tmp_path: Path) -> None:
    async def scenario() -> None:
        old = pending()
        async with running(tmp_path / "state.db") as journal:
            journal.record(Opened(old))
            await journal.durable()
            _cap(journal, 1)
            journal.record(Closed(final(old, origin="x" * 100_000)), Opened(pending(size=100_000)))
            await journal.durable()
            assert journal.find(old.id) == old.answer  # still in the outbox
            _cap(journal, 100_000)
            await journal.durable()
            answer = journal.find(old.id)
            assert answer is not None
            assert answer.final

    asyncio.run(scenario())


def test_any_other_error_ends_the_journal(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "state.db") as journal:
            journal._db.execute("DROP TABLE outbox")
            journal.record(Opened(pending()))
            async with asyncio.timeout(10):
                await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(scenario())
    assert caught.group_contains(Malformed, match="outbox; the file is damaged: move it away")


@pytest.mark.parametrize(
    "spoil",
    [
        "escalation = x'c1'", "escalation = zeroblob(length(escalation))", "logits = x'010203'",
        "id = zeroblob(16)",
    ],
)  # fmt: skip
def test_a_row_that_the_disk_has_spoilt_says_so(tmp_path: Path, spoil: str) -> None:
    async def scenario() -> None:
        p = pending(confidence=0.25, position="img-7.png")
        async with running(tmp_path / "state.db") as journal:
            journal.record(Opened(p))
        with sqlite3.connect(tmp_path / "state.db") as db:
            db.execute(f"UPDATE outbox SET {spoil}")
        async with running(tmp_path / "state.db") as journal:
            (row,) = journal.outbox()
            spoilt = journal.pending(row.id)
            assert isinstance(spoilt, Damaged)
            assert journal.find(row.id) == spoilt.answer
            assert (spoilt.answer.label, spoilt.answer.confidence) == (-1, 0.25)
            assert spoilt.answer.position == "img-7.png"

    asyncio.run(scenario())


def test_text_that_the_disk_has_spoilt_is_still_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        p = pending(position="img-7.png")
        async with running(tmp_path / "state.db") as journal:
            journal.record(Opened(p))
        with sqlite3.connect(tmp_path / "state.db") as db:
            db.execute("UPDATE outbox SET position = CAST(x'69ff' AS TEXT)")
        async with running(tmp_path / "state.db") as journal:
            found = journal.find(p.id)
            assert found is not None
            assert (found.label, found.position) == (1, "i\ufffd")

    asyncio.run(scenario())


def test_a_file_damaged_further_in_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "state.db"

    async def scenario() -> None:
        async with running(file) as journal:
            for _ in range(100):
                journal.record(Opened(pending()))

    asyncio.run(scenario())
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))
    with pytest.raises(Malformed, match=r"state\.db: .*damaged: move it away"):
        Journal(file, Bounds(1000), gap_s_max=60)


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_process_leaves_every_promised_sample_in_exactly_one_place(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    promised = set[str]()
    for _ in range(2):  # the second one starts on what the first one left
        lines = rng.randint(1, 60)
        with subprocess.Popen(
            [sys.executable, str(_WRITER), str(tmp_path / "state.db"), str(seed)],
            stdout=subprocess.PIPE, text=True,
        ) as writer:  # fmt: skip
            assert writer.stdout is not None
            for _ in range(lines):
                promised.update(writer.stdout.readline().split())
            writer.send_signal(signal.SIGKILL)
            # a line that was cut short by the kill promised nothing
            rest = writer.stdout.read()
            promised.update(word for line in rest.split("\n")[:-1] for word in line.split())
    db = database.connect(tmp_path / "state.db")
    found = [
        row[0].hex()
        for table in ("outbox", "answers", "ledger")
        for row in db.execute(f"SELECT id FROM {table}")
    ]
    assert len(found) == len(set(found))
    assert promised <= set(found)
    (cursor,) = db.execute("SELECT position FROM cursors").fetchone()
    (recorded,) = db.execute("SELECT count FROM counts WHERE name = 'recorded'").fetchone()
    assert int(cursor) == recorded == len(found)
    db.close()


def _on_disk(folder: Path) -> tuple[dict[str, int], str]:
    db = database.connect(folder / "state.db")
    counts: Sequence[tuple[str, int]] = db.execute("SELECT * FROM counts").fetchall()
    (cursor,) = db.execute("SELECT position FROM cursors").fetchone()
    db.close()
    return dict(counts), cursor
