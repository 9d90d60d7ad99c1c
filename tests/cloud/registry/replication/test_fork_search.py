from hypothesis import given
from hypothesis import strategies as st

from cloud.registry.replication.fork_search import ForkSearch


@given(st.integers(0, 10_000), st.data())
def test_it_finds_where_two_logs_part_in_few_questions(end, data):
    fork = data.draw(st.integers(0, end))
    search, asked = ForkSearch.of(end), 0
    while (probe := search.probe) is not None:
        assert 1 <= probe <= end
        search = search.after(probe, is_shared=probe <= fork)
        asked += 1
    assert search.shared == fork
    assert asked <= end.bit_length() + 1
