import math
from uuid import UUID

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.ingest.decode import Received, Unreadable, decode
from shared.topics import escalations
from shared.wire.envelope import MESSAGE_BYTES_MAX, pack_escalation
from tests.cloud.samples import DEVICE, escalation

TOPIC = escalations(DEVICE)
GOOD = pack_escalation(escalation())


def spoilt(**fields: object) -> bytes:
    return bytes(msgpack.packb({**msgpack.unpackb(GOOD), **fields}))


def test_a_good_one_comes_out_with_the_topics_device() -> None:
    e = escalation()
    assert decode(TOPIC, pack_escalation(e)) == Received(DEVICE, e)


def test_unknown_fields_from_a_newer_device_are_ignored() -> None:
    assert isinstance(decode(TOPIC, spoilt(new=3)), Received)


@pytest.mark.parametrize(
    "topic", ["hy/v1//up/esc", "hy/v1/a b/up/esc", "hy/v1/d/up/state", "", "x"]
)
def test_a_topic_that_is_not_ours_cannot_be_refused_to_anyone(topic: str) -> None:
    read = decode(topic, GOOD)
    assert isinstance(read, Unreadable)
    assert (read.kind, read.device, read.id) == ("topic", None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"v": 2}, {"why": "fun"}, {"s": [0]}, {"s": "4,4"}, {"ec": math.nan}, {"ec": 2.0},
        {"left": -1}, {"left": 1.5}, {"ts": math.nan}, {"ts": math.inf}, {"el": -1},
        {"el": 2**31}, {"m": ""}, {"m": "x" * 65}, {"m": "a\0b"}, {"mv": "1\n2"}, {"d": "text"},
        {"dict": "0" * 17}, {"dict": "\u00e9"},
    ],
    ids=str,
)  # fmt: skip
def test_each_bad_field_is_named_and_its_sample_known(fields: dict[str, object]) -> None:
    read = decode(TOPIC, spoilt(**fields))
    assert isinstance(read, Unreadable)
    assert (read.kind, read.device) == ("envelope", DEVICE)
    assert read.id == UUID(bytes=msgpack.unpackb(GOOD)["id"])
    assert next(iter(fields)) in read.why


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xc1", b"hello", GOOD[:-3], msgpack.packb([1]), spoilt(id=b"short"), spoilt(id=None),
     spoilt(id="sixteen letters."), spoilt(id=[0] * 16), msgpack.packb({"v": 1, "id": {}}),
     b"\x91" * 5000, b"\0" * (MESSAGE_BYTES_MAX + 1)],
    ids=lambda payload: f"{payload[:8]!r} {len(payload)}",
)  # fmt: skip
def test_without_a_readable_id_there_is_none(payload: bytes) -> None:
    read = decode(TOPIC, payload)
    assert isinstance(read, Unreadable)
    assert (read.kind, read.id) == ("envelope", None)


@given(st.text(max_size=30), st.binary(max_size=200))
def test_whatever_arrives_nothing_is_raised(topic: str, payload: bytes) -> None:
    assert isinstance(decode(topic, payload), Unreadable)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
def test_a_flipped_byte_is_read_or_refused(at: int, value: int) -> None:
    decode(TOPIC, GOOD[:at] + bytes([value]) + GOOD[at + 1 :])
