"""So many at once, and not all of them for one."""

import asyncio
import contextlib
import threading

import pytest

from cloud.api.kept_turns import in_thread
from cloud.api.turns import Turns
from shared.errors import Overloaded


def test_one_caller_cannot_have_every_turn() -> None:
    turns = Turns("downloads", 16)
    with contextlib.ExitStack() as held:
        for _ in range(14):
            held.enter_context(turns.one("greedy"))
        with pytest.raises(Overloaded, match="14 downloads are under way, 14 of them yours"):
            held.enter_context(turns.one("greedy"))
        for _ in range(2):
            held.enter_context(turns.one("ann"))
        with pytest.raises(Overloaded, match="16 downloads are under way, 0 of them yours"):
            held.enter_context(turns.one("bob"))
        assert turns.taken == 16
    assert turns.taken == 0
    with turns.one("greedy"):
        assert turns.taken == 1


@pytest.mark.parametrize("count_max", [2, 4, 7])
def test_of_few_turns_one_is_for_others(count_max: int) -> None:
    turns = Turns("plans", count_max)
    with contextlib.ExitStack() as held:
        for _ in range(count_max - 1):
            held.enter_context(turns.one("greedy"))
        with pytest.raises(Overloaded, match=f"{count_max - 1} of them yours"):
            held.enter_context(turns.one("greedy"))
        held.enter_context(turns.one("ann"))


def test_who_is_alone_has_the_only_turn() -> None:
    turns = Turns("plans", 1)
    with turns.one("ann"), pytest.raises(Overloaded):
        turns.one("bob").__enter__()


def test_a_thread_keeps_its_turn_though_who_asked_has_left() -> None:
    async def main() -> None:
        turns, ends, begun = Turns("plans", 1), threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> None:
            loop.call_soon_threadsafe(begun.set)
            ends.wait(20)

        asked = asyncio.create_task(in_thread(turns, "ann", work))
        await begun.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        with pytest.raises(Overloaded, match="1 plans are under way"):
            await in_thread(turns, "bob", work)
        ends.set()
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        assert await in_thread(turns, "bob", lambda: 5) == 5

    asyncio.run(main())
