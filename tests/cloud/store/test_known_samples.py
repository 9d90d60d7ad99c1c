from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from cloud.store.known_samples import KnownSamples
from shared.new_ids import new_sample_id


@given(st.lists(st.uuids(), max_size=200))
def test_the_newest_are_never_forgotten(samples: list[UUID]) -> None:
    known = KnownSamples(5)
    for sample in samples:
        known.add(sample)
    assert all(sample in known for sample in samples[-5:])


def test_a_full_filter_mistakes_about_one_in_a_hundred() -> None:
    known = KnownSamples(2_000)
    for n in range(2_000):
        known.add(new_sample_id(n, n.to_bytes(10, "big")))
    mistaken = sum(new_sample_id(n, (n + 2**70).to_bytes(10, "big")) in known for n in range(2_000))
    assert mistaken < 60


def test_what_is_long_gone_is_forgotten() -> None:
    known = KnownSamples(100)
    for n in range(1_000):
        known.add(new_sample_id(n, n.to_bytes(10, "big")))
    assert sum(new_sample_id(n, n.to_bytes(10, "big")) in known for n in range(800)) < 80
