"""Mosquitto's acl_file syntax, what it means here, and names that try to be filters."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cloud.broker.access.acl import Acl
from cloud.broker.access.identity import Identity
from cloud.broker.access.rules import Rules
from shared.errors import Malformed

ANN = Identity("ann-1", "ann")
BOB = Identity("bob-1", "bob")
NOBODY = Identity("x-1", None)


def rules(text: str, identity: Identity) -> Rules:
    return Acl.parse(text, "acl").rules(identity)


def test_topics_before_any_user_are_for_anonymous_clients() -> None:
    text = "topic open\nuser ann\ntopic closed"
    assert rules(text, NOBODY).may_publish("open")
    assert not rules(text, NOBODY).may_publish("closed")
    assert not rules(text, ANN).may_publish("open")
    assert rules(text, ANN).may_publish("closed")
    assert not rules(text, BOB).may_publish("closed")


def test_a_user_named_twice_has_the_lines_of_both() -> None:
    text = "user ann\ntopic a\nuser bob\ntopic b\nuser ann\ntopic c"
    assert [rules(text, ANN).may_publish(topic) for topic in "abc"] == [True, False, True]


def test_access_words() -> None:
    text = "user ann\ntopic read r\ntopic write w\ntopic readwrite rw\ntopic both"
    ann = rules(text, ANN)
    assert [ann.may_publish(one) for one in ("r", "w", "rw", "both")] == [False, True, True, True]
    assert [ann.may_subscribe(one) for one in ("r", "w", "rw", "both")] == [True, False, True, True]


def test_what_no_line_allows_is_denied() -> None:
    for identity in (ANN, NOBODY):
        assert not rules("", identity).may_publish("a")
        assert not rules("", identity).may_subscribe("a")


def test_deny_wins_wherever_it_stands() -> None:
    for lines in (["topic a/#", "topic deny a/b"], ["topic deny a/b", "topic a/#"]):
        ann = rules("\n".join(["user ann", *lines]), ANN)
        assert ann.may_publish("a/c")
        assert not ann.may_publish("a/b")
        assert ann.may_subscribe("a/c")
        assert not ann.may_subscribe("a/b")
        assert ann.reading("a/#") == ("a/b",), "granted, but a/b is kept back"
    pattern = rules("user ann\ntopic a/#\npattern deny a/%u", ANN)
    assert not pattern.may_publish("a/ann")
    assert pattern.may_publish("a/bob")


def test_a_subscription_needs_one_line_that_covers_it() -> None:
    ann = rules("user ann\ntopic read a/+\ntopic read b/#", ANN)
    for granted in ("a/x", "a/+", "b", "b/#", "b/+/c"):
        assert ann.may_subscribe(granted), granted
    for refused in ("#", "+/x", "a/#", "a", "c"):
        assert not ann.may_subscribe(refused), refused


def test_patterns_are_for_everybody() -> None:
    text = "user ann\ntopic a\npattern read news\npattern write u/%u\npattern write c/%c"
    for identity in (ANN, BOB):
        found = rules(text, identity)
        assert found.may_subscribe("news")
        assert found.may_publish(f"u/{identity.username}")
        assert found.may_publish(f"c/{identity.client_id}")
        assert not found.may_publish("u/eve")
        assert not found.may_publish("c/eve")
    anonymous = rules(text, NOBODY)
    assert anonymous.may_subscribe("news")
    assert anonymous.may_publish("c/x-1")
    assert not anonymous.may_publish("u/")
    assert not anonymous.may_publish("u/None")


HOSTILE = ["+", "#", "a/b", "+/+", "/", "a+", "a#", "", "$SYS", "$share"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_is_no_plain_level_satisfies_no_pattern(name: str) -> None:
    """CVE-2017-7650."""
    text = "pattern u/%u/x\npattern c/%c/x\npattern %c\npattern %u/#"
    for mark, identity in (("u", Identity("id", name)), ("c", Identity(name, "ann"))):
        found = rules(text, identity)
        for topic in (f"{mark}/victim/x", f"{mark}/{name}/x", f"{mark}/a/b/x", "$SYS", "victim"):
            assert not found.may_publish(topic)
        for asked in (f"{mark}/+/x", f"{mark}/victim/x", "$SYS/#", "#", f"{mark}/{name}/x"):
            assert not found.may_subscribe(asked)


def test_a_hostile_client_id_still_has_the_patterns_that_do_not_use_it() -> None:
    found = rules("pattern u/%u\npattern c/%c", Identity("ann/1", "ann"))
    assert found.may_publish("u/ann")
    assert not found.may_publish("c/ann/1")


@pytest.mark.parametrize("name", HOSTILE)
def test_a_deny_pattern_that_cannot_be_filled_in_denies_all(name: str) -> None:
    for mark, identity in (("u", Identity("id", name)), ("c", Identity(name, "ann"))):
        found = rules(f"pattern a/#\npattern deny a/%{mark}", identity)
        assert not found.may_publish("a/free")
        assert not found.may_subscribe("a/free")


def test_an_anonymous_client_is_not_denied_what_users_are() -> None:
    assert rules("topic a/#\npattern deny a/%u", NOBODY).may_publish("a/b")


def test_nobody_publishes_to_sys() -> None:
    text = "user ann\ntopic #\ntopic $SYS/#\npattern write $SYS/broker/connection/%c/state"
    for identity in (ANN, Identity("o", "o", is_owner=True)):
        found = rules(text, identity)
        for topic in ("$SYS", "$SYS/", "$SYS/broker/connection/ann-1/state"):
            assert not found.may_publish(topic)
        assert found.may_subscribe("$SYS/#")
        assert found.may_publish("$SYSTEM") is identity.is_owner


def test_a_wildcard_does_not_give_sys_away() -> None:
    ann = rules("user ann\ntopic #", ANN)
    assert ann.may_subscribe("#")
    assert not ann.may_subscribe("$SYS/#")
    assert not ann.may_publish("$other")


def test_the_owner_may_do_all_else() -> None:
    owner = rules("topic deny #\npattern deny a/%u", Identity("o", "+", is_owner=True))
    assert owner.may_publish("a/b")
    assert owner.may_subscribe("#")


def test_spacing_and_comments_are_mosquittos() -> None:
    text = (
        "# a comment\r\n#topic no\r\n\r\n   \n  user   ann lee  \r\n"
        "topic   read    with some spaces/#  \n topic write été/+\n"
    )
    found = rules(text, Identity("c", "ann lee"))
    assert found.may_subscribe("with some spaces/x")
    assert found.may_publish("été/1")
    assert not found.may_publish("no")


@pytest.mark.parametrize(
    ("line", "what_to_do"),
    [
        ("topic", "filter is missing"),
        ("topic read", "needs a filter"),
        ("topic deny", "needs a filter"),
        ("pattern", "filter is missing"),
        ("topic reed a/b", "'reed' is no access word"),
        ("topic a b", "'a' is no access word"),
        ("topic read a/#/b", "no topic filter"),
        ("topic a+", "no topic filter"),
        ("topic a/# # why", "'a/#' is no access word"),
        ("topic read a/# # why", "no topic filter"),
        ("topic read " + "/" * 128, "no topic filter"),
        ("topic read $share/workers/a", "leave '\\$share/<group>/' off"),
        ("topic read a/%u", "for 'pattern' lines"),
        ("topic deny a/%c", "for 'pattern' lines"),
        ("pattern read a/dev-%c", "all of its level"),
        ("pattern deny %u%c", "all of its level"),
        ("user", "names nobody"),
        ("user  ", "names nobody"),
        ("  # comment", "first column"),
        ("users ann", "none of 'user', 'topic', 'pattern'"),
        ("Topic a", "none of 'user', 'topic', 'pattern'"),
        ("topic\tread a", "use spaces"),
        ("topic read a\0", "control character"),
        ("topic read a\x85topic b", "control character"),
    ],
)
def test_a_bad_line_is_named(line: str, what_to_do: str) -> None:
    with pytest.raises(Malformed, match=what_to_do) as refused:
        Acl.parse(f"# first\nuser ann\n{line}\ntopic after", "site/acl.conf")
    assert str(refused.value).startswith("site/acl.conf, line 3: ")


@settings(deadline=None)
@given(st.text(st.sampled_from("topicuserpatternreadenywrite %uc#+/$\n\t"), max_size=60))
def test_any_text_is_an_acl_or_malformed(text: str) -> None:
    try:
        acl = Acl.parse(text, "acl")
    except Malformed:
        return
    for identity in (ANN, NOBODY, Identity("#", "+")):
        acl.rules(identity).may_subscribe("a/+")


names = st.text(st.sampled_from("ab+#/$%uc"), max_size=5)
patterns = st.sampled_from(["%u/#", "a/%u/b/+", "%c", "+/%c/#", "%u/%c", "$SYS/%u", "%c/+"])


@settings(deadline=None)
@given(patterns, names, names, names, names)
def test_no_name_opens_what_a_pattern_keeps_for_another(
    pattern: str, username: str, client_id: str, victim: str, victim_id: str
) -> None:
    mine = Acl.parse(f"pattern {pattern}", "acl").rules(Identity(client_id, username))
    filled = {"%u": victim, "%c": victim_id, "+": "q", "#": "r/s"}
    topic = "/".join(filled.get(level, level) for level in pattern.split("/"))
    is_mine = all(
        level not in pattern
        or (theirs == own and own and not set(own) & set("+#/") and own[0] != "$")
        for level, theirs, own in (("%u", victim, username), ("%c", victim_id, client_id))
    )
    if topic and not topic.startswith("$SYS/"):
        assert mine.may_publish(topic) == is_mine
    if topic and not set(topic) & set("+#"):
        assert mine.may_subscribe(topic) == is_mine
