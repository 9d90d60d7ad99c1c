import asyncio

import pytest

from edge.answer_book import AnswerBook
from shared.errors import DeadlineMissed, Overloaded, Unavailable
from simulations.virtual_time import run
from tests.edge.samples import final, pending


def test_the_oldest_answer_is_forgotten_first() -> None:
    book, rows = AnswerBook(2, 10), [pending() for _ in range(3)]
    for p in rows:
        book.note(p.answer)
    assert [book.find(p.id) for p in rows] == [None, rows[1].answer, rows[2].answer]


def test_whoever_waits_gets_the_final_answer() -> None:
    async def scenario() -> None:
        book, p = AnswerBook(10, 10), pending()
        book.note(p.answer)
        waiting = [asyncio.create_task(book.final(p.id, 1.0)) for _ in range(2)]
        await asyncio.sleep(0.5)
        book.note(final(p))
        assert [await task for task in waiting] == [final(p)] * 2
        assert book._waiting == {}

    run(scenario())


def test_at_the_deadline_the_caller_is_told_and_nobody_else_is_forgotten() -> None:
    async def scenario() -> None:
        book, p = AnswerBook(10, 10), pending()
        patient = asyncio.create_task(book.final(p.id, 5.0))
        with pytest.raises(DeadlineMissed, match=r"within 1.0 s; it follows as a correction"):
            await book.final(p.id, 1.0)
        assert asyncio.get_running_loop().time() == 1.0
        book.note(final(p))
        assert await patient == final(p)
        assert book._waiting == {}

    run(scenario())


def test_followers_get_final_answers_only_in_order() -> None:
    async def scenario() -> None:
        book, rows = AnswerBook(10, 10), [pending() for _ in range(3)]
        stream = book.follow()
        for p in rows:
            book.note(p.answer)
            book.note(final(p))
        assert [await stream.next() for _ in rows] == [final(p) for p in rows]
        stream.close()
        book.note(final(pending()))
        book.close()
        assert not stream._queue

    run(scenario())


def test_a_slow_follower_is_cut_off_after_what_it_has_and_others_are_not() -> None:
    async def scenario() -> None:
        book, rows = AnswerBook(10, 2), [pending() for _ in range(3)]
        slow, quick = book.follow(), book.follow()
        for p in rows:
            book.note(final(p))
            assert await quick.next() == final(p)
        assert [await slow.next(), await slow.next()] == [final(rows[0]), final(rows[1])]
        with pytest.raises(Overloaded, match="2 answers were not read in time"):
            await slow.next()

    run(scenario())


def test_a_drain_ends_streams() -> None:
    async def scenario() -> None:
        book = AnswerBook(10, 10)
        reading = asyncio.create_task(book.follow().next())
        await asyncio.sleep(0)
        book.close()
        with pytest.raises(Unavailable, match="shutting down"):
            await reading

    run(scenario())
