import math

from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.gateway.budget import Budget, CallerLimits
from cloud.gateway.caller import Caller
from cloud.gateway.permits import LocalPermits
from cloud.gateway.seen import Seen


def caller(until: float = math.inf) -> Caller:
    budget = Budget(CallerLimits((), 1, 1), LocalPermits())
    return Caller("n", "n", frozenset(), budget, until)


def look_up(seen: Seen, text: str) -> Caller | None:
    return seen.young.get(text) or seen.again(text, 0.0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 30), max_size=300), st.integers(1, 12))
def test_it_is_bounded_and_never_mixes_callers_up(names, entries_max):
    seen, callers = Seen(entries_max), {}
    for name in map(str, names):
        found = look_up(seen, name)
        assert found is None or found is callers[name]
        if found is None:
            callers[name] = caller()
            seen.add(name, callers[name])
        assert look_up(seen, name) is callers[name]
        assert len(seen) <= max(entries_max, 2)


def test_what_is_used_stays_while_others_pass_by():
    seen = Seen(10)
    kept = caller()
    seen.add("kept", kept)
    for n in range(1000):
        seen.add(f"passer-by {n}", caller())
        assert look_up(seen, "kept") is kept


def test_what_is_over_is_not_brought_back():
    seen = Seen(2)
    seen.add("a", caller(until=5.0))
    seen.add("b", caller())
    assert "a" in seen.old
    assert seen.again("a", 5.0) is None
    assert len(seen) == 1
