"""Topic names, filters and the tree that matches them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.broker.codec import topics
from cloud.broker.codec.packets import Subscription
from cloud.broker.codec.reasons import BrokenRule
from cloud.broker.codec.topics import Shared
from cloud.broker.router.subscriptions import SubscriptionTree, Wanted

levels = st.sampled_from(["a", "b", "", "$x"])
names = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
filters = st.lists(levels | st.just("+"), max_size=4).flatmap(
    lambda found: st.sampled_from(["/".join(found), "/".join([*found, "#"])])
).filter(bool)  # fmt: skip


@pytest.mark.parametrize("good", ["a", "/", "a/+", "+", "#", "a/#", "+/+/#", "a//b", "$SYS/#"])
def test_well_formed_filters(good: str) -> None:
    assert topics.is_filter(good)


@pytest.mark.parametrize("bad", ["", "a+", "a/b+", "#/a", "a#", "a/#/b", "/".join("a" * 129)])
def test_malformed_filters(bad: str) -> None:
    assert not topics.is_filter(bad)


@pytest.mark.parametrize("bad", ["$share/", "$share//a", "$share/g", "$share/g/", "$share/+/a",
                                 "$share/g/a#"])  # fmt: skip
def test_malformed_share_groups(bad: str) -> None:
    with pytest.raises(BrokenRule):
        topics.split_shared(bad)


def test_share_groups() -> None:
    assert topics.split_shared("$share/g/a/#") == Shared("g", "a/#")
    assert topics.split_shared("a/b") is None


def wanted(topic_filter: str, qos: int = 0) -> Wanted:
    return Wanted(Subscription(topic_filter, qos))  # type: ignore[arg-type]  # 0, 1 or 2


@given(st.sets(filters, max_size=8), st.sets(filters, max_size=3), names)
def test_the_tree_agrees_with_the_definition(kept: set[str], removed: set[str], topic: str) -> None:
    tree = SubscriptionTree()
    for topic_filter in sorted(kept | removed):
        tree.add(topic_filter, topic_filter, wanted(topic_filter))
    tree.match(topic)
    for topic_filter in sorted(removed):
        tree.remove(topic_filter, topic_filter)
    got = {route.client_id for route in tree.match(topic).routes}
    assert got == {one for one in kept - removed if topics.matches(one, topic)}


def test_a_tree_without_subscriptions_holds_no_nodes() -> None:
    tree = SubscriptionTree()
    tree.add("c", "a/b/c", wanted("a/b/c"))
    tree.join("c", Shared("g", "a/b/#"), wanted("a/b/#"))
    tree.remove("c", "a/b/c")
    tree.leave("c", Shared("g", "a/b/#"))
    tree.remove("c", "never/there")
    assert tree._root.is_empty


def test_overlapping_subscriptions_make_one_route_with_the_higher_qos() -> None:
    tree = SubscriptionTree()
    tree.add("c", "a/#", Wanted(Subscription("a/#", 1, no_local=True), 7))
    tree.add("c", "a/b", Wanted(Subscription("a/b", 2, retain_as_published=True), 8))
    [route] = tree.match("a/b").routes
    assert (route.qos, route.no_local, route.retain_as_published) == (2, False, True)
    assert sorted(route.identifiers) == [7, 8]
