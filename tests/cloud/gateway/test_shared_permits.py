"""Workers that share a storage: `limits`' seam over one dict, and one that fails."""

import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limits.strategies import FixedWindowRateLimiter

from cloud.gateway.budget import Budget, CallerLimits
from cloud.gateway.permits import Windows, take_up_to
from cloud.gateway.rates import parse_rates
from cloud.gateway.refusals import RateLimited
from cloud.gateway.shared_permits import BLOCKS_A_WINDOW, DOWN_S, SharedStorage, open_storage
from shared.errors import Malformed


class Room(Windows):
    """A storage that workers share, and that can be down."""

    def __init__(self) -> None:
        super().__init__()
        self.wrap_exceptions = True
        self.down = False
        self.calls = 0

    def get(self, key):
        self.calls += 1
        if self.down:
            raise ValueError("no route")
        return super().get(key)


def worker(room: Room, rate: str, failures: list[int] | None = None) -> Budget:
    count = failures if failures is not None else [0]

    def failed() -> None:
        count[0] += 1

    storage = SharedStorage(room, failed, wall=lambda: room.now)
    return Budget(CallerLimits(parse_rates(rate), 1, 1), storage.permits("key/a"))


def spends(one: Budget, now: float) -> bool:
    try:
        one.spend(now)
    except RateLimited:
        return False
    return True


@settings(deadline=None)
@given(
    st.sampled_from([4, 99, 100, 250, 700]),
    st.lists(st.tuples(st.integers(0, 2), st.floats(0, 0.02)), max_size=1500),
)
def test_together_they_let_the_limit_through_and_hold_back_a_block_each(amount, steps):
    room = Room()
    workers = [worker(room, f"{amount}/second") for _ in range(3)]
    block = max(1, amount // BLOCKS_A_WINDOW)
    now, began, passed = 0.0, -10.0, 0
    for which, pause in steps:
        now += pause
        room.now = now
        if now >= began + 1:
            began, passed = now, 0
        if spends(workers[which], now):
            passed += 1
            assert passed <= amount
        else:
            assert passed + 1 > amount - 2 * (block - 1)


def test_a_slow_limit_is_shared_to_the_last_permit():
    room = Room()
    first, second = worker(room, "60/minute"), worker(room, "60/minute")
    assert sum(spends(one, 0.0) for _ in range(60) for one in (first, second)) == 60


def test_a_fast_limit_takes_about_a_hundred_calls_a_window():
    room = Room()
    one = worker(room, "10000/second")
    assert sum(spends(one, 0.0) for _ in range(20_000)) == 10_000
    assert room.calls <= 4 * BLOCKS_A_WINDOW


def test_another_who_comes_between_reading_and_taking_gets_it_and_no_more_passes():
    class Race(Windows):
        def get(self, key):
            found = super().get(key)
            if not found:
                super().incr(key, 60, 3)  # just after we looked
            return found

    room = Race()
    taken = take_up_to(FixedWindowRateLimiter(room), parse_rates("4/minute")[0], "a", 2)
    assert taken.permits == 0


def test_while_the_storage_is_down_each_counts_by_itself(caplog):
    caplog.set_level(logging.INFO)
    room, failures = Room(), [0]
    one = worker(room, "3/hour", failures)
    room.down = True
    assert [spends(one, 0.0) for _ in range(4)] == [True, True, True, False]
    assert failures == [1]
    assert [r.message for r in caplog.records] == ["rate_storage_lost"]
    assert "no route" not in caplog.text  # an address or a password could stand in it


def test_a_storage_that_failed_is_left_alone_for_a_while_and_then_used_again(caplog):
    caplog.set_level(logging.INFO)
    room, failures = Room(), [0]
    one = worker(room, "1000/second", failures)
    room.down = True
    for step in range(40):
        room.now = step * 0.1
        for _ in range(5):
            one.spend(room.now)
    assert failures == [1]
    assert room.calls == 1
    room.down = False
    room.now = DOWN_S + 1
    one.spend(room.now)
    assert room.get(parse_rates("1000/second")[0].key_for("key/a")) == 10
    assert [r.message for r in caplog.records] == ["rate_storage_lost", "rate_storage_back"]


def test_a_wall_clock_that_was_set_gives_no_window_without_an_end():
    room = Room()
    one = worker(room, "1/second")
    room.now = 1e6
    one.spend(5.0)
    room.now = 0.0  # set back: the window seems to end in eleven days
    with pytest.raises(RateLimited) as refused:
        one.spend(6.5)
        one.spend(6.5)
    assert refused.value.retry_after_s is not None
    assert refused.value.retry_after_s <= 1.0


@pytest.mark.parametrize(
    "uri", ["file:///etc/passwd", "mongodb://a:secret@b", "async+redis://a:secret@b", "", "secret"]
)
def test_another_scheme_is_refused_without_showing_the_uri(uri):
    with pytest.raises(Malformed, match="is no storage of rate limits") as refused:
        open_storage(uri)
    assert "secret@" not in str(refused.value)


def test_a_client_library_that_is_not_there_is_named():
    pytest.importorskip("limits")
    for scheme, package in (("redis", "redis"), ("memcached", "pymemcache")):
        try:
            __import__(package)
        except ImportError:
            with pytest.raises(Malformed, match=f"pip install {package}"):
                open_storage(f"{scheme}://user:secret@127.0.0.1:1")
