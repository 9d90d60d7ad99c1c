"""The newest log lines, within the bounds of one message."""

import logging

import pytest

from edge.fleet.asks import LINE_CHARS_MAX, told
from shared.errors import Malformed, TooLarge
from shared.fleet.asking import LINES_MAX, TOLD_BYTES_MAX, Ask, Told
from shared.logs import NewestLines

ID = "0123456789abcdef"


def answer(lines: list[str], count: int = LINES_MAX) -> Told:
    ask = Ask(id=ID, what="logs", lines=count).to_bytes()
    content = told(ask, lambda number: lines[-number:])
    assert len(content) <= TOLD_BYTES_MAX
    return Told.from_bytes(content, TOLD_BYTES_MAX)


def test_the_newest_come_last_and_only_as_many_as_asked_for() -> None:
    assert answer(["a", "b", "c"], 2).lines == ("b", "c")
    assert answer([], 2) == Told(id=ID, lines=())


@pytest.mark.parametrize("mark", ["x", '"', "\x01", "\N{SNOWMAN}", "\N{PILE OF POO}"])
def test_long_lines_are_cut_and_the_oldest_left_out_and_that_is_said(mark: str) -> None:
    lines = [f"{n}{mark * 3000}" for n in range(LINES_MAX)]
    got = answer(lines)
    assert 5 <= len(got.lines) < LINES_MAX
    assert got.lines[-1] == lines[-1][:LINE_CHARS_MAX]
    assert got.why.startswith("the oldest were left out")


@pytest.mark.parametrize("content", [b"", b"{}", b'{"id":"x","what":"logs"}', b'{"what":"shell"}'])
def test_what_is_no_question_is_refused(content: bytes) -> None:
    with pytest.raises(Malformed):
        told(content, lambda _: [])


def test_a_long_question_is_refused() -> None:
    with pytest.raises(TooLarge):
        told(b" " * 1025, lambda _: [])


def test_the_ring_keeps_the_newest_lines_within_bounds() -> None:
    ring = NewestLines(3, 60)
    for n in range(5):
        ring.handle(logging.makeLogRecord({"msg": f"event{n} {'x' * 100}", "name": "t"}))
    lines = ring.newest(2)
    assert [len(line) for line in lines] == [60, 60]
    assert '"event": "event4' not in lines[0]
    assert len(ring.newest(99)) == 3
    assert ring.newest(0) == ()


class _Unspeakable:
    def __str__(self) -> str:
        raise RuntimeError


def test_a_record_that_cannot_be_formatted_ends_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ring = NewestLines(3, 60)
    ring.handle(logging.makeLogRecord({"msg": "event", "field": _Unspeakable()}))
    assert ring.newest(3) == ()
    assert "RuntimeError" in capsys.readouterr().err
