"""Hypothesis strategies for well formed control packets."""

from typing import Any

from hypothesis import strategies as st

from cloud.broker.codec import packets as p
from cloud.broker.codec.packets import Version
from cloud.broker.codec.properties import _BINARY, _FLAGS, _U16, _U32, ALLOWED, PropertyId

text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
topics = st.text(
    st.characters(exclude_characters="\0+#", exclude_categories=["Cs"]), min_size=1, max_size=12
)
payloads = st.binary(max_size=40)
packet_ids = st.integers(1, 65_535)
qos = st.sampled_from([0, 1, 2])
codes = st.integers(0, 255)
SEVERAL = {PropertyId.USER_PROPERTY}


def _value(identifier: PropertyId) -> st.SearchStrategy[object]:
    if identifier in _FLAGS:
        return st.integers(0, 1)
    if identifier in _U16:
        return st.integers(1, 65_535)
    if identifier in _U32:
        return st.integers(1, 2**32 - 1)
    if identifier in _BINARY:
        return payloads
    if identifier is PropertyId.SUBSCRIPTION_IDENTIFIER:
        return st.integers(1, 268_435_455)
    if identifier is PropertyId.USER_PROPERTY:
        return st.tuples(text, text)
    return text


def properties(packet_type: int) -> st.SearchStrategy[tuple[object, ...]]:
    one = st.sampled_from(sorted(ALLOWED[packet_type])).flatmap(
        lambda identifier: st.tuples(st.just(identifier), _value(identifier))
    )
    unique = st.lists(one, max_size=5, unique_by=lambda pair: pair[0])
    users = st.lists(
        st.tuples(st.just(PropertyId.USER_PROPERTY), st.tuples(text, text)), max_size=3
    )
    return st.tuples(unique, users).map(lambda both: (*both[0], *both[1]))


def _answer(kind: type, packet_type: int, version: Version) -> st.SearchStrategy[Any]:
    if version is Version.V311:
        return st.builds(kind, packet_ids)
    return st.builds(kind, packet_ids, codes, properties(packet_type))


def publishes(version: Version) -> st.SearchStrategy[p.Publish]:
    v5 = version is Version.V5
    found = properties(3) if v5 else st.just(())
    return st.one_of(
        st.builds(p.Publish, topics, payloads, st.just(0), st.booleans(), properties=found),
        st.builds(
            p.Publish, topics, payloads, st.sampled_from([1, 2]), st.booleans(), st.booleans(),
            packet_ids, found,
        ),
    )  # fmt: skip


def packets(version: Version) -> st.SearchStrategy[p.Packet]:
    v5 = version is Version.V5

    def props(packet_type: int) -> st.SearchStrategy[tuple[object, ...]]:
        return properties(packet_type) if v5 else st.just(())

    no = st.just(False)
    will = st.none() | st.builds(p.Will, topics, payloads, qos, st.booleans(), props(0))
    named = st.tuples(text, payloads) if not v5 else st.tuples(st.none() | text, payloads)
    names = st.just((None, None)) | named
    connect = names.flatmap(
        lambda pair: st.builds(
            p.Connect, text, st.just(version), st.booleans(), st.integers(0, 65_535), will,
            st.just(pair[0]), st.just(pair[1]), props(1),
        )
    )  # fmt: skip
    one = st.builds(
        p.Subscription, text, qos, *(([st.booleans()] * 2 + [qos]) if v5 else [no, no, st.just(0)])
    )
    reasons = st.lists(codes, min_size=1, max_size=4).map(tuple)
    plain: list[st.SearchStrategy[Any]] = [
        connect,
        st.builds(p.Connack, st.booleans(), codes, props(2)),
        publishes(version),
        _answer(p.Puback, 4, version),
        _answer(p.Pubrec, 5, version),
        _answer(p.Pubrel, 6, version),
        _answer(p.Pubcomp, 7, version),
        st.builds(
            p.Subscribe, packet_ids, st.lists(one, min_size=1, max_size=4).map(tuple), props(8)
        ),
        st.builds(p.Suback, packet_ids, reasons, props(9)),
        st.builds(
            p.Unsubscribe, packet_ids, st.lists(text, min_size=1, max_size=4).map(tuple), props(10)
        ),
        st.builds(p.Unsuback, packet_ids, reasons if v5 else st.just(()), props(11)),
        st.just(p.Pingreq()),
        st.just(p.Pingresp()),
        st.builds(p.Disconnect, codes, props(14)) if v5 else st.just(p.Disconnect()),
    ]
    if v5:
        plain.append(st.builds(p.Auth, codes, props(15)))
    return st.one_of(plain)
