from hypothesis import given
from hypothesis import strategies as st

from cloud.api.places import Places, Taken


def test_places_are_bounded() -> None:
    places = Places[str](2, grace_s=10)
    assert places.take("a", 0.0) == places.take("b", 0.0) == Taken(None)
    assert places.take("c", 9.0) is None
    assert len(places) == 2


def test_the_longest_idle_goes_and_no_one_within_his_grace() -> None:
    places = Places[str](2, grace_s=10)
    places.take("a", 0.0)
    places.take("b", 1.0)
    assert places.take("c", 9.9) is None
    assert places.take("c", 10.0) == Taken("a")
    assert places.take("d", 10.9) is None
    assert places.take("d", 11.0) == Taken("b")


def test_who_works_stays() -> None:
    places = Places[str](2, grace_s=0)
    places.take("a", 0.0)
    places.take("b", 1.0)
    places.start_work("a")
    assert places.works("a")
    assert places.take("c", 5.0) == Taken("b")
    places.start_work("c")
    assert places.take("d", 99.0) is None
    places.end_work("a", 100.0)
    assert places.take("d", 100.0) == Taken("a")


def test_who_has_a_place_keeps_it_and_who_left_is_forgotten() -> None:
    places = Places[str](1, grace_s=0)
    places.take("a", 0.0)
    assert places.take("a", 1.0) == Taken(None)
    places.leave("a")
    places.start_work("a")
    places.end_work("a", 2.0)
    assert len(places) == 0


@given(st.lists(st.tuples(st.sampled_from(["take", "start", "end", "leave"]), st.integers(0, 5))))
def test_never_more_than_there_are_and_no_one_who_works_has_to_go(
    steps: list[tuple[str, int]],
) -> None:
    places = Places[int](3, grace_s=2)
    working = set[int]()
    for now, (step, who) in enumerate(steps):
        match step:
            case "take":
                taken = places.take(who, float(now))
                assert taken is None or taken.instead_of not in working
            case "start":
                places.start_work(who)
                working |= {who} if places.works(who) else set()
            case "end":
                places.end_work(who, float(now))
                working.discard(who)
            case _:
                places.leave(who)
                working.discard(who)
        assert len(places) <= 3
        assert all(places.works(who) for who in working)
