"""Limits on virtual time: every `now` is given."""

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cloud.gateway.budget import Budget, Budgets, CallerLimits
from cloud.gateway.permits import LocalPermits, Windows
from cloud.gateway.rates import parse_rates
from cloud.gateway.refusals import RateLimited
from shared.errors import TooLarge


def budget(rate: str | None, in_hand_max: int = 4) -> Budget:
    rates = () if rate is None else parse_rates(rate)
    return Budget(CallerLimits(rates, 1000, in_hand_max), LocalPermits())


def spends(one: Budget, now: float, cost: int = 1) -> bool:
    try:
        one.spend(now, cost)
    except RateLimited:
        return False
    return True


def test_the_limit_passes_and_the_next_is_told_when_to_come_again():
    one = budget("3/second")
    for now in (10.0, 10.5, 10.9):
        one.spend(now)
    with pytest.raises(RateLimited, match=r"limit of 3/second; come again in 0.1 s") as refused:
        one.spend(10.9)
    assert refused.value.kind == "rate"
    assert refused.value.retry_after_s == pytest.approx(0.1)
    assert not spends(one, 10.999)
    assert spends(one, 11.0)  # a window lasts from its first permit for as long as it says


def test_permits_do_not_outlive_their_window():
    one = budget("100/second")
    one.spend(0.0)  # 99 are left here, in a block
    assert sum(spends(one, 1.5) for _ in range(300)) == 100


def test_a_slow_limit_behind_a_fast_one_holds():
    one = budget("2/second; 5/hour")
    passed = [now for now in range(100) for _ in range(3) if spends(one, float(now))]
    assert passed == [0, 0, 1, 1, 2]
    with pytest.raises(RateLimited, match="5/hour") as refused:
        one.spend(100.0)
    assert refused.value.retry_after_s == pytest.approx(3500.0)
    assert spends(one, 3600.0)


def test_of_two_limits_that_are_over_the_longer_wait_is_told():
    for rate in ("2/second; 2/minute", "2/minute; 2/second"):
        one = budget(rate)
        one.spend(0.0, 2)
        with pytest.raises(RateLimited, match="limit of 2/minute") as refused:
            one.spend(0.5)
        assert refused.value.retry_after_s == pytest.approx(59.5)


def test_what_one_limit_refuses_costs_nothing_of_the_others():
    one = budget("1/second; 3/hour")
    one.spend(0.0)
    for _ in range(50):
        assert not spends(one, 0.5)
    assert [spends(one, now) for now in (1.0, 2.0, 3.0)] == [True, True, False]


def test_a_dear_request_is_refused_where_a_cheap_one_still_passes():
    one = budget("10/second")
    one.spend(0.0, 8)
    assert not spends(one, 0.1, 3)
    assert spends(one, 0.1, 2)
    assert not spends(one, 0.1)


def test_what_can_never_pass_is_too_large():
    one = budget("10/second; 5/minute")
    with pytest.raises(TooLarge, match="costs 6 of a limit of 5/minute"):
        one.spend(0.0, 6)
    assert spends(one, 0.0, 5)  # and it cost nothing


def test_a_caller_without_limits_is_never_refused():
    one = budget(None)
    for now in (0.0, 1e9, 1e12):
        one.spend(now, 1_000_000)


def test_a_refusal_does_not_ask_the_storage_again():
    class Counted(LocalPermits):
        takes = 0

        def take(self, item, wanted, now):
            self.takes += 1
            return super().take(item, wanted, now)

    permits = Counted()
    one = Budget(CallerLimits(parse_rates("5/minute"), 1, 1), permits)
    for _ in range(1000):
        spends(one, 1.0)
    assert permits.takes == 2  # the block, and that there is no more


requests = st.lists(
    st.tuples(st.floats(0, 1.5, allow_nan=False), st.integers(1, 4)), min_size=1, max_size=150
)
rates = st.lists(
    st.builds(
        lambda amount, many: f"{amount}/{many} second", st.integers(4, 12), st.integers(1, 5)
    ),
    min_size=1, max_size=3,
).map("; ".join)  # fmt: skip


class Watched(LocalPermits):
    """Remembers when each limit's windows ended; one may begin with a request that another limit
    refused."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = defaultdict(set)

    def take(self, item, wanted, now):
        taken = super().take(item, wanted, now)
        self.ends[item].add(taken.ends)
        return taken


@settings(deadline=None)
@given(rates, requests)
@example("4/1 second; 5/5 second", [(0.0, 1)] * 2 + [(1.0, 1)] * 3 + [(1.5, 1)] + [(0.3, 1)] * 9)
def test_in_no_window_more_than_the_limit_passes(rate, asked):
    permits = Watched()
    one = Budget(CallerLimits(parse_rates(rate), 1, 1), permits)
    now, passed = 0.0, []
    for pause, cost in asked:
        now += pause
        if spends(one, now, cost):
            passed.append((now, cost))
    for item in parse_rates(rate):
        ends = sorted(permits.ends[item])
        for before, after in pairwise(ends):
            assert after - before >= item.get_expiry() - 1e-9  # so they do not overlap
        for before, after in pairwise([-1.0, *ends]):
            assert sum(cost for at, cost in passed if before <= at < after) <= item.amount
        # so no interval of that length, wherever it begins, sees more than twice the limit
        for begin, _ in passed:
            within = sum(cost for at, cost in passed if begin <= at < begin + item.get_expiry())
            assert within <= 2 * item.amount


@settings(deadline=None)
@given(rates, requests)
def test_who_stays_under_his_limits_is_never_refused(rate, asked):
    one = budget(rate)
    items = parse_rates(rate)
    now, sent = 0.0, []
    for pause, cost in asked:
        now += pause
        if all(
            sum(c for t, c in sent if t > now - item.get_expiry()) + cost <= item.amount
            for item in items
        ):
            sent.append((now, cost))
            one.spend(now, cost)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 5)), max_size=60))
def test_windows_count_as_a_plain_model_does(steps):
    windows, model = Windows(), defaultdict(lambda: (0.0, 0))
    now = 0.0
    for pause, amount in steps:
        now += pause
        windows.now = now
        ends, count = model["k"]
        if now >= ends:
            ends, count = now + 2, 0
        assert windows.get("k") == count
        model["k"] = (ends, count + amount)
        assert windows.incr("k", 2, amount) == count + amount
        assert windows.get_expiry("k") == ends


def test_requests_in_hand_are_bounded():
    one = budget(None, in_hand_max=2)
    one.begin()
    one.begin()
    with pytest.raises(RateLimited, match="2 requests of yours are in hand") as refused:
        one.begin()
    assert refused.value.kind == "in_hand"
    one.end()
    one.begin()


def test_a_caller_keeps_his_budget_and_other_limits_are_another():
    all_of_them = Budgets(lambda _: LocalPermits(), 10)
    slow, fast = (CallerLimits(parse_rates(r), 1, 1) for r in ("1/hour", "9/hour"))
    one = all_of_them.of("a", slow, 0.0)
    assert all_of_them.of("a", slow, 1.0) is one
    assert all_of_them.of("a", fast, 1.0) is not one
    assert all_of_them.of("b", slow, 1.0) is not one


def test_callers_beyond_the_bound_push_out_the_idle_first():
    limits = CallerLimits(parse_rates("1/hour"), 1, 1)
    all_of_them = Budgets(lambda _: LocalPermits(), 3)
    busy = all_of_them.of("busy", limits, 0.0)
    busy.spend(0.0)
    for n in range(100):
        all_of_them.of(f"passer-by {n}", limits, 1.0)
    assert len(all_of_them) == 3
    assert all_of_them.of("busy", limits, 2.0) is busy


def test_when_all_are_busy_the_one_not_looked_up_for_longest_goes():
    limits = CallerLimits(parse_rates("1/hour"), 1, 1)
    all_of_them = Budgets(lambda _: LocalPermits(), 2)
    first, second = (all_of_them.of(name, limits, 0.0) for name in "ab")
    first.spend(0.0)
    second.spend(0.0)
    assert all_of_them.of("a", limits, 1.0) is first
    all_of_them.of("c", limits, 1.0)
    assert all_of_them.of("a", limits, 1.0) is first
    assert all_of_them.of("b", limits, 1.0) is not second
