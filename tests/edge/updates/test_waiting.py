import threading

from edge.updates.waiting import Waiting


def test_it_is_bounded_whoever_goes_first() -> None:
    waiting: Waiting[str] = Waiting(3)
    assert [waiting.put(one, first=False) for one in "abcd"] == [True, True, True, False]
    assert not waiting.put("A", first=True)  # c made room
    assert not waiting.put("B", first=True)
    assert not waiting.put("C", first=True)
    assert not waiting.put("D", first=True)  # nobody can
    assert [waiting.get() for _ in range(3)] == ["A", "B", "C"]
    waiting.put("e", first=False)
    assert waiting.get() == "e"  # a, b and c are gone


def test_closing_it_ends_who_waits_and_gives_out_nothing_more() -> None:
    waiting: Waiting[str] = Waiting(3)
    got: list[str | None] = []
    thread = threading.Thread(target=lambda: got.append(waiting.get()))
    thread.start()
    waiting.close()
    thread.join(20)
    assert got == [None]
    waiting.put("late", first=True)
    assert waiting.get() is None
