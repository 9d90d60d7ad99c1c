"""So many at once, and not all of them for one."""

import contextlib

import pytest

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
