from hypothesis import given
from hypothesis import strategies as st

from edge.uplink.ranked import Ranked

STEPS = st.lists(
    st.tuples(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 5))), max_size=300
)


@given(STEPS)
def test_it_agrees_with_a_sorted_list(steps: list[tuple[int, int | None]]) -> None:
    ranked, turn, model = Ranked[int](), 0, dict[int, tuple[int, int]]()
    for key, rank in steps:
        if rank is None:
            ranked.discard(key)
            model.pop(key, None)
        else:
            turn += 1
            ranked.add(key, rank)
            model[key] = (rank, turn)
        first = min(model, key=lambda k: model[k], default=None)
        found = ranked.first()
        assert found == (None if first is None else (first, (model[first][0],)))
        assert len(ranked) == len(model)
        assert set(ranked) == set(model)


def test_coming_and_going_does_not_grow_it() -> None:
    ranked = Ranked[int]()
    for turn in range(10_000):
        ranked.add(turn % 3, turn)
        ranked.discard(turn % 2)
    assert len(ranked._heap) < 200
