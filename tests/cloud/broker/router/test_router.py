"""Routing between sessions: share groups, retained messages, wills, expiry."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cloud.broker.access.identity import Identity
from cloud.broker.access.rules import Rules
from cloud.broker.codec.packets import Subscription
from cloud.broker.codec.reasons import BrokenRule, ReasonCode
from cloud.broker.limits import Limits
from cloud.broker.router.retained import SLICE, RetainedMessages
from cloud.broker.router.router import Router
from cloud.broker.session.inflight import RETRIEVED_BYTES_MAX
from cloud.broker.session.messages import Drop, Message
from cloud.broker.session.session import Session

LIMITS = Limits()
PLENTY = 1 << 30
SHARED = "$share/g/t"


class Wire:
    """A connection: takes everything, acknowledges only when told."""

    def __init__(self, router: Router, client_id: str) -> None:
        self.router, self.client_id = router, client_id

    def wake(self) -> None:
        """Nothing to do: tests take when they like."""

    def take_over(self, now: float) -> None:
        self.router.close(self.router.sessions[self.client_id], now, publish_will=True)


def make(limits: Limits = LIMITS) -> Router:
    return Router(limits, lambda: "made-up")


def join(
    router: Router, client_id: str, *filters: str, expiry_s: float = 0, clean: bool = False,
    window: int = 100, now: float = 0, qos: int = 2, username: str | None = None,
    will: tuple[Message, float] | None = None,
) -> Session:  # fmt: skip
    wire = Wire(router, client_id)
    session, _ = router.open(
        Identity(client_id, username), wire, now,
        clean=clean, expiry_s=expiry_s, window=window, will=will,
    )  # fmt: skip
    for one in filters:
        router.subscribing.subscribe(session, Subscription(one, qos), 0, now)  # type: ignore[arg-type]  # 0-2
    return session


def say(router: Router, payload: bytes = b"x", topic: str = "t", now: float = 0, **more: object
) -> int:  # fmt: skip
    fields = {"qos": 1, **more}
    return router.publish(Message(topic, payload, **fields), now)  # type: ignore[arg-type]


def got(session: Session, now: float = 0) -> list[bytes]:
    sent = session.take(now, PLENTY)
    return [delivery.message.payload for delivery, _, _ in sent if delivery is not None]


def test_the_publisher_hears_how_it_went() -> None:
    router = make(Limits(queued_bytes_max=2_000, packet_bytes_max=2_000))
    assert say(router) == ReasonCode.NO_MATCHING_SUBSCRIBERS
    one = join(router, "1", "t")
    assert say(router) == 0
    assert say(router, bytes(1_900)) == ReasonCode.QUOTA_EXCEEDED
    join(router, "2", "t")
    assert say(router, bytes(1_800)) == 0  # one of two has room
    assert one.dropped[Drop.QUEUE_FULL] == 2
    assert router.dropped() == {Drop.QUEUE_FULL: 2}


def test_the_least_loaded_member_is_next_and_equals_take_turns() -> None:
    router = make()
    one, two = join(router, "1", SHARED), join(router, "2", SHARED)
    for index in range(4):
        say(router, str(index).encode())
    assert (got(one), got(two)) == ([b"0", b"2"], [b"1", b"3"])
    two.acknowledge(1)
    two.acknowledge(2)
    say(router, b"4")
    say(router, b"5")
    assert (got(one), got(two)) == ([], [b"4", b"5"])


def test_a_full_member_is_passed_over_and_nothing_counts_as_dropped() -> None:
    router = make(Limits(queued_bytes_max=2_000, packet_bytes_max=2_000))
    one, two = join(router, "1", SHARED), join(router, "2", SHARED)
    router.subscribing.subscribe(one, Subscription("only", 1), 0, 0)
    say(router, bytes(1_500), topic="only")
    got(one)
    say(router, b"small")  # both take turns, two is less loaded
    assert say(router, bytes(1_000)) == 0
    assert len(got(two)) == 2
    assert not router.dropped()


def test_a_dying_members_messages_go_to_the_others() -> None:
    router = make()
    doomed = join(router, "1", SHARED)
    for index in range(3):
        say(router, str(index).encode())
    got(doomed)
    doomed.acknowledge(2)
    other = join(router, "2", SHARED)
    router.close(doomed, 0, publish_will=False)
    assert got(other) == [b"0", b"2"]
    assert not router.dropped()


def test_with_nobody_connected_a_lasting_session_keeps_them_for_the_next() -> None:
    router = make()
    keeper = join(router, "1", SHARED, expiry_s=100)
    router.close(keeper, 0, publish_will=False)
    assert say(router, b"waits") == 0
    comer = join(router, "2", SHARED)
    assert got(comer) == [b"waits"]
    assert not keeper.pending


def test_a_connected_member_comes_before_an_idle_one_that_is_away() -> None:
    router = make()
    away = join(router, "1", SHARED, expiry_s=100)
    router.close(away, 0, publish_will=False)
    here = join(router, "2", SHARED)
    for _ in range(3):
        say(router)
    assert (away.pending, here.pending) == (0, 3)


def test_with_all_away_messages_stay_where_they_are() -> None:
    router = make()
    away = join(router, "1", SHARED, expiry_s=100)
    router.close(away, 0, publish_will=False)
    last = join(router, "2", SHARED, expiry_s=100)
    say(router)
    router.close(last, 0, publish_will=False)
    assert (away.pending, last.pending) == (0, 1)


def test_the_last_members_end_is_counted() -> None:
    router = make()
    last = join(router, "1", SHARED)
    say(router)
    router.close(last, 0, publish_will=False)
    assert router.dropped() == {Drop.SESSION_ENDED: 1}
    assert say(router) == ReasonCode.NO_MATCHING_SUBSCRIBERS


def test_a_qos_2_message_already_sent_stays_with_its_member() -> None:
    router = make()
    doomed = join(router, "1", SHARED, expiry_s=100)
    say(router, b"sent", qos=2)
    got(doomed)
    say(router, b"waiting", qos=2)
    other = join(router, "2", SHARED)
    router.close(doomed, 0, publish_will=False)
    assert got(other) == [b"waiting"]
    assert doomed.pending == 1


def test_retained_messages_are_bounded_and_expire() -> None:
    router = make(Limits(retained_max=2))
    assert say(router, topic="a", retain=True, expires_at=5.0) == 0x10
    say(router, topic="b", retain=True)
    assert say(router, topic="c", retain=True, now=4) == ReasonCode.QUOTA_EXCEEDED
    assert say(router, topic="b", payload=b"new", retain=True, now=4) == 0x10
    say(router, topic="c", retain=True, now=6)  # a has expired and makes room
    assert sorted(one.topic for one in router.retained.matching("#", 6)) == ["b", "c"]
    say(router, topic="b", payload=b"", retain=True)
    say(router, topic="c", payload=b"", retain=True)
    assert router.retained.held_bytes == 0


def test_retained_bytes_are_bounded() -> None:
    router = make(Limits(retained_bytes_max=1_500))
    assert say(router, bytes(1_000), "a", retain=True) == 0x10
    assert say(router, bytes(1_000), "b", retain=True) == ReasonCode.QUOTA_EXCEEDED
    assert say(router, bytes(1_200), "a", retain=True) == 0x10  # replaces, so it fits


def test_an_expired_retained_message_is_not_sent() -> None:
    router = make()
    say(router, topic="a", retain=True, expires_at=5.0)
    assert got(join(router, "1", "a", now=4), 4) == [b"x"]
    assert got(join(router, "2", "#", now=5), 5) == []
    assert router.retained.count == 0


def test_share_groups_get_no_retained_messages() -> None:
    router = make()
    say(router, retain=True)
    assert got(join(router, "1", SHARED)) == []


def test_a_session_ends_after_its_expiry_and_not_before() -> None:
    router = make()
    for now in (0.0, 5.0):  # a return in between starts the time again
        session = join(router, "1", "t", expiry_s=10, now=now)
        router.close(session, now, publish_will=False)
    assert router.due_at() == 10.0
    router.expire(10.0)
    assert "1" in router.sessions
    assert router.due_at() == 15.0
    router.expire(15.0)
    assert not router.sessions
    assert router.due_at() is None
    assert say(router) == ReasonCode.NO_MATCHING_SUBSCRIBERS


def test_a_flapping_client_costs_one_timer() -> None:
    router = make()
    for now in range(100):
        router.close(join(router, "1", expiry_s=1_000, now=now), now, publish_will=False)
    assert len(router._timers) == 1


@pytest.mark.parametrize(
    ("delay_s", "expiry_s", "at"), [(0, 100, 0), (5, 100, 5), (500, 100, 100), (5, 0, 0)]
)
def test_a_will_comes_after_its_delay_or_with_the_end(
    delay_s: float, expiry_s: float, at: float
) -> None:
    router = make()
    watcher = join(router, "w", "will")
    doomed = join(router, "1", expiry_s=expiry_s, will=(Message("will", b"gone", 1), delay_s))
    router.close(doomed, 0, publish_will=True)
    if at:
        router.expire(at - 0.5)
        assert got(watcher) == []
        router.expire(at)
    assert got(watcher) == [b"gone"]


def test_a_return_calls_a_will_off_and_a_clean_start_does_not() -> None:
    router = make()
    watcher = join(router, "w", "will")
    for clean in (False, True):
        doomed = join(router, "1", expiry_s=100, will=(Message("will", b"gone", 1), 5.0))
        router.close(doomed, 0, publish_will=True)
        join(router, "1", expiry_s=100, clean=clean, now=1)
        router.expire(50)
        assert got(watcher) == ([b"gone"] if clean else [])


def test_sessions_and_subscriptions_are_bounded() -> None:
    router = make(replace(LIMITS, sessions_max=1, subscriptions_max=1))
    one = join(router, "1", "a")
    assert router.subscribing.subscribe(one, Subscription("b"), 0, 0) == ReasonCode.QUOTA_EXCEEDED
    assert router.subscribing.subscribe(one, Subscription("a", 1), 0, 0) == 1
    assert (
        router.subscribing.subscribe(one, Subscription("a+"), 0, 0)
        == ReasonCode.TOPIC_FILTER_INVALID
    )
    assert (
        router.subscribing.subscribe(one, Subscription("$share/g"), 0, 0)
        == ReasonCode.TOPIC_FILTER_INVALID
    )
    with pytest.raises(BrokenRule) as caught:
        join(router, "2")
    assert caught.value.reason is ReasonCode.QUOTA_EXCEEDED


def test_unsubscribe() -> None:
    router = make()
    one = join(router, "1", "t", SHARED)
    assert router.subscribing.unsubscribe(one, "t", 0) == 0
    assert router.subscribing.unsubscribe(one, SHARED, 0) == 0
    assert router.subscribing.unsubscribe(one, SHARED, 0) == ReasonCode.NO_SUBSCRIPTION_EXISTED
    assert say(router) == ReasonCode.NO_MATCHING_SUBSCRIBERS


NAMES = st.sampled_from(["1", "2", "3"])


class ShareGroupRules(RuleBasedStateMachine):
    """Every QoS 1 message to a share group is with exactly one member until acknowledged.

    One member never leaves the group (its session outlives its connection), so nothing may be
    dropped whoever connects, dies, starts clean or acknowledges what.
    """

    def __init__(self) -> None:
        super().__init__()
        self.router = make()
        self.published = 0
        self.done: set[bytes] = set()
        self.now = 0.0
        join(self.router, "keeper", SHARED, expiry_s=1e6)

    @rule(name=NAMES, expiry_s=st.sampled_from([0, 5, 1e6]), clean=st.booleans(),
          window=st.integers(1, 3))  # fmt: skip
    def connect(self, name: str, expiry_s: float, window: int, *, clean: bool) -> None:
        join(self.router, name, SHARED, expiry_s=expiry_s, clean=clean, window=window,
             now=self.now)  # fmt: skip

    @rule(window=st.integers(1, 3))
    def keeper_returns(self, window: int) -> None:
        join(self.router, "keeper", SHARED, expiry_s=1e6, window=window, now=self.now)

    @rule(name=NAMES | st.just("keeper"))
    def die(self, name: str) -> None:
        session = self.router.sessions.get(name)
        if session is not None and session.link is not None:
            self.router.close(session, self.now, publish_will=False)

    @rule(name=NAMES)
    def leave(self, name: str) -> None:
        session = self.router.sessions.get(name)
        if session is not None and not session.pending:
            self.router.subscribing.unsubscribe(session, SHARED, self.now)

    @rule(count=st.integers(1, 5))
    def publish(self, count: int) -> None:
        for _ in range(count):
            assert say(self.router, str(self.published).encode(), now=self.now) == 0
            self.published += 1

    @rule(name=NAMES | st.just("keeper"), count=st.integers(0, 3))
    def read(self, name: str, count: int) -> None:
        session = self.router.sessions.get(name)
        if session is None or session.link is None:
            return
        session.take(self.now, PLENTY)
        for packet_id, entry in list(session.inflight.items())[:count]:
            assert entry.delivery is not None
            assert entry.delivery.message.payload not in self.done
            self.done.add(entry.delivery.message.payload)
            session.acknowledge(packet_id)

    @precondition(lambda self: self.now < 1e5)
    @rule()
    def time_passes(self) -> None:
        self.now += 3
        self.router.expire(self.now)

    @invariant()
    def each_message_is_with_one_member(self) -> None:
        held = Counter[bytes]()
        for session in self.router.sessions.values():
            held.update(one.message.payload for one in session.queue)
            held.update(
                one.delivery.message.payload for one in session.inflight.values() if one.delivery
            )
        want = {str(index).encode() for index in range(self.published)} - self.done
        assert dict(held) == dict.fromkeys(want, 1)

    @invariant()
    def bytes_are_accounted_for(self) -> None:
        held = sum(one.held_bytes for one in self.router.sessions.values())
        assert held == self.router.budget.used_bytes


ShareGroupRules.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
test_share_group_rules = ShareGroupRules.TestCase


def test_what_is_denied_within_a_subscription_is_kept_back() -> None:
    router = make()
    one, two = join(router, "1"), join(router, "2")
    for session, denied in ((one, ("a/secret",)), (two, ())):
        for wanted in ("a/#", "$share/g/b/#"):
            router.subscribing.subscribe(session, Subscription(wanted, 1), 0, 0, denied)
    assert say(router, b"public", "a/b") == 0
    assert say(router, b"secret", "a/secret", retain=True) == 0
    assert (got(one), got(two)) == ([b"public"], [b"public", b"secret"])
    late = join(router, "3")
    router.subscribing.subscribe(late, Subscription("a/#", 1), 0, 0, ("a/secret",))
    assert got(late) == [], "nor what is retained"


def test_a_group_member_that_may_not_read_a_topic_is_passed_over() -> None:
    router = make()
    one, two = join(router, "1"), join(router, "2")
    router.subscribing.subscribe(one, Subscription("$share/g/a/#", 1), 0, 0, ("a/secret",))
    router.subscribing.subscribe(two, Subscription("$share/g/a/#", 1), 0, 0)
    for index in range(4):
        assert say(router, str(index).encode(), "a/secret") == 0
    assert got(one) == []
    assert got(two) == [b"0", b"1", b"2", b"3"]


def test_rules_read_anew_end_subscriptions_and_drop_what_waits() -> None:
    router = make()
    one = join(router, "1", "a/#", "b/#", expiry_s=100)
    say(router, b"kept", "a/x")
    say(router, b"secret", "a/secret")
    say(router, b"gone", "b/x")
    assert len(one.take(0, 1)) == 1, "the first is in flight"

    one.set_will(Message("will", b"", 1))
    router.subscribing.judge(one, Rules(read=("a/#",), write=("a",), deny=("a/secret",)), 0)
    assert one.will is None, "its topic is not for this client either"
    assert list(one.subscriptions) == ["a/#"]
    assert one.dropped[Drop.NOT_AUTHORIZED] == 2
    say(router, b"secret", "a/secret")
    say(router, b"gone", "b/x")
    assert got(one) == []
    one.acknowledge(1)
    assert one.held_bytes == router.budget.used_bytes == 0


def test_a_session_is_resumed_by_its_own_user_only() -> None:
    router = make()
    join(router, "1", "a", expiry_s=100, username="ann")
    for other in ("bob", None):
        with pytest.raises(BrokenRule) as caught:
            join(router, "1", expiry_s=100, username=other)
        assert caught.value.reason is ReasonCode.CLIENT_IDENTIFIER_NOT_VALID
    assert join(router, "1", expiry_s=100, username="ann").subscriptions


def test_a_user_ends_a_session_from_before_there_were_users_and_inherits_nothing() -> None:
    router = make()
    before = join(router, "1", "a", expiry_s=100)
    say(router, topic="a")
    after = join(router, "1", expiry_s=100, username="ann")
    assert after is not before
    assert not after.subscriptions
    assert got(after) == []


def test_what_a_member_held_when_it_left_the_group_goes_to_others_when_it_ends() -> None:
    router = make()
    away, one = join(router, "away", SHARED, expiry_s=100), join(router, "1", SHARED)
    router.close(away, 0, publish_will=False)
    say(router)
    assert got(one) == [b"x"], "in flight, not acknowledged"
    router.subscribing.unsubscribe(one, SHARED, 0)
    router.close(one, 0, publish_will=False)
    assert got(join(router, "away", expiry_s=100)) == [b"x"]


def test_retained_messages_come_as_the_client_reads_them() -> None:
    router = make()
    for index in range(500):
        say(router, bytes(10_000), f"many/{index}", retain=True)
    reader = join(router, "1", "many/#")
    assert reader.held_bytes == 0, "looked up when there is something to read into"
    seen = 0
    while reader.has_more():
        sent = reader.take(0, PLENTY)
        seen += len(sent)
        assert reader.held_bytes <= RETRIEVED_BYTES_MAX + 11_000
        for _, packet_id, _ in sent:
            reader.acknowledge(packet_id)
    assert seen == 500


def test_a_search_for_retained_messages_takes_breath() -> None:
    retained = RetainedMessages(10_000, 1 << 30)
    for index in range(2_000):
        retained.adopt(Message(f"a/{index}/x", b"x", 0))
    search = retained.search("+/+/y")
    next(search)
    breaths = 0
    with pytest.raises(StopIteration):
        while True:
            assert search.send(0) is None
            breaths += 1
    assert breaths >= 2_000 // SLICE


def test_what_is_retained_after_a_subscription_comes_once() -> None:
    router = make()
    say(router, b"old", "a/1", retain=True)
    reader = join(router, "1", "a/#")
    say(router, b"new", "a/1", retain=True)
    say(router, b"newer", "a/2", retain=True)
    assert got(reader) == [b"new", b"newer"]


def test_filters_and_topics_of_a_dollar_below_the_first_level_match_wildcards() -> None:
    router = make()
    for topic in ("$a/x", "a/$x"):
        say(router, topic.encode(), topic, retain=True)
    assert got(join(router, "1", "#")) == [b"a/$x"]
    assert got(join(router, "2", "+/+")) == [b"a/$x"]
    assert got(join(router, "3", "$a/+")) == [b"$a/x"]


def test_levels_of_all_filters_are_bounded_and_given_back() -> None:
    router = make(replace(LIMITS, subscription_nodes_max=3))
    one = join(router, "1", "a/b", "a/c")
    assert router.tree.node_count == 3
    assert router.subscribing.subscribe(one, Subscription("x"), 0, 0) == ReasonCode.QUOTA_EXCEEDED
    router.subscribing.unsubscribe(one, "a/b", 0)
    assert router.subscribing.subscribe(one, Subscription("x"), 0, 0) == 0
    router.close(one, 0, publish_will=False)
    assert router.tree.node_count == 0


def test_no_user_takes_the_levels_of_all_others() -> None:
    router = make(replace(LIMITS, subscription_nodes_max=40))
    for client_id in ("1", "2"):
        join(router, client_id, "a/b/c/d/" + client_id, username="greedy", expiry_s=100)
    third = join(router, "3", username="greedy")
    assert router.subscribing.subscribe(third, Subscription("x"), 0, 0) == ReasonCode.QUOTA_EXCEEDED
    other = join(router, "4", username="other")
    assert router.subscribing.subscribe(other, Subscription("x"), 0, 0) == 0
    router.subscribing.unsubscribe(router.sessions["1"], "a/b/c/d/1", 0)
    assert router.subscribing.subscribe(third, Subscription("x"), 0, 0) == 0
