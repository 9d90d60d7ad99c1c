import itertools
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.broker.access.rules import NOTHING, OPEN, REMEMBERED_BYTES_MAX, Rules
from cloud.broker.codec.topics import matches


def test_open_rules_allow_all_but_publishing_to_sys() -> None:
    assert OPEN.may_publish("a/b")
    assert OPEN.may_publish("$other/b")
    assert OPEN.may_subscribe("#")
    assert OPEN.may_subscribe("$SYS/#")
    for topic in ("$SYS", "$SYS/broker/uptime"):
        assert not OPEN.may_publish(topic)


def test_nothing_allows_nothing() -> None:
    assert not NOTHING.may_publish("a")
    assert not NOTHING.may_subscribe("a")


@pytest.mark.parametrize("topic", ["a/1", "b"])
def test_the_second_answer_is_the_first(topic: str) -> None:
    rules = Rules(write=("a/+",))
    assert [rules.may_publish(topic) for _ in range(3)] == [topic == "a/1"] * 3
    assert rules._known == {topic: topic == "a/1"}


@pytest.mark.parametrize("topic_chars", [8, 1_000, 60_000, 65_535])
def test_what_is_remembered_is_bounded_in_bytes(topic_chars: int) -> None:
    rules = Rules(write=("a/#",))
    for number in range(3_000 if topic_chars < 10_000 else 20):
        topic = f"a/{number}/".ljust(topic_chars, "é")
        assert rules.may_publish(topic)
        held = sum(sys.getsizeof(one) for one in rules._known)
        assert held <= REMEMBERED_BYTES_MAX
    assert rules._known_bytes <= REMEMBERED_BYTES_MAX


def test_a_worker_of_many_devices_finds_its_topics_remembered() -> None:
    rules = Rules(write=("hy/v1/+/down/#",))
    topics = [f"hy/v1/gateway-{number:04}/down/ans" for number in range(300)]
    for topic in topics:
        rules.may_publish(topic)
    assert list(rules._known) == topics


levels = st.sampled_from(["a", "b", "+", "$x"])
filters = st.builds(
    lambda found, end: "/".join([*found, *end]),
    st.lists(levels, min_size=1, max_size=3), st.sampled_from([[], ["#"]]),
)  # fmt: skip
TOPICS = [
    "/".join(levels)
    for count in range(1, 5)
    for levels in itertools.product(["a", "b", "$x", "z"], repeat=count)
]


@settings(deadline=None)
@given(st.lists(filters, max_size=3), st.lists(filters, max_size=2), filters)
def test_a_granted_subscription_brings_only_what_may_be_read(
    read: list[str], deny: list[str], asked: str
) -> None:
    denied = Rules(tuple(read), (), tuple(deny)).reading(asked)
    if denied is not None:
        assert set(denied) <= set(deny)
        for topic in TOPICS:
            if matches(asked, topic):
                assert any(matches(one, topic) for one in read)
                kept_back = any(matches(one, topic) for one in denied)
                assert kept_back == any(matches(one, topic) for one in deny)
