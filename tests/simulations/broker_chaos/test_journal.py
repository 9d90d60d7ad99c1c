"""Journals: what was written is read, and a line cut by kill -9 is none."""

from pathlib import Path

from simulations.broker_chaos.journal import Event, Journal, Saw, Tail, message_of, parse

EVENT = Event(Saw.RECEIVED, 5, "r0", "p0/1", "up/p0/q1", 2, 7, "retain")


def test_a_line_is_read_as_it_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.journal")
    journal.write(EVENT, EVENT._replace(code=1, detail=""))
    journal.close()
    assert list(Tail(tmp_path / "a.journal").read()) == [EVENT, EVENT._replace(code=1, detail="")]


def test_noise_breaks_no_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "a.journal")
    noise = EVENT._replace(message=message_of(b"a\tb\nc\x0b\xff d"), topic="x\u2028y")
    journal.write(noise)
    journal.close()
    [event] = Tail(tmp_path / "a.journal").read()
    assert event == noise._replace(message="a?b?c\x0b\ufffd")


def test_the_tail_waits_for_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.journal"
    tail = Tail(path)
    assert list(tail.read()) == []
    line = "\t".join(map(str, EVENT)) + "\n"
    path.write_text(line + line[:9])
    assert list(tail.read()) == [EVENT]
    assert list(tail.read()) == []
    path.write_text(line + line)
    assert list(tail.read()) == [EVENT]
    assert parse(line.rstrip("\n")) == EVENT
