import math
from dataclasses import replace
from typing import Any, get_args
from uuid import UUID

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import HybridgeError, Malformed, TooLarge
from shared.ids import SampleId
from shared.new_ids import new_sample_id
from shared.wire.envelope import (
    MESSAGE_BYTES_MAX,
    CloudAnswer,
    Escalation,
    Payload,
    Reason,
    Refusal,
    RefusalCode,
    pack_downlink,
    pack_escalation,
    unpack_downlink,
    unpack_escalation,
)

IDS = st.uuids().map(SampleId)
TEXT = st.text(max_size=40)
NAMES = TEXT.filter(str.isprintable)
SHARES = st.floats(0, 1)
PAYLOADS = st.builds(
    Payload,
    codec=TEXT,
    dtype=TEXT,
    shape=st.lists(st.integers(1, 2**31 - 1), max_size=8).map(tuple),
    data=st.binary(max_size=200),
    dictionary=st.sampled_from(["", "0123456789abcdef"]),
)
ESCALATIONS = st.builds(
    Escalation,
    id=IDS,
    model=TEXT,
    model_version=TEXT,
    reason=st.sampled_from(get_args(Reason)),
    budget_ms=st.integers(0, 2**40),
    captured_at=st.floats(allow_nan=False),
    edge_label=st.integers(-1, 10_000),
    edge_confidence=SHARES,
    payload=PAYLOADS,
    traceparent=TEXT,
    share=st.floats(0, 1, exclude_min=True),
)
ONE = Escalation(
    id=new_sample_id(), model="m", model_version="1.0.0", reason="escalated", budget_ms=500,
    captured_at=1.0, edge_label=3, edge_confidence=0.4,
    payload=Payload("raw", "uint8", (2, 2), b"abcd"),
)  # fmt: skip
ANSWER = CloudAnswer(
    id=new_sample_id(), model="m", model_version="1.0.0",
    probabilities=np.array([0.25, 0.75], np.float32), queue_ms=1.5, run_ms=0.5,
)  # fmt: skip


@given(ESCALATIONS)
def test_escalations_round_trip(escalation: Escalation) -> None:
    assert unpack_escalation(pack_escalation(escalation)) == escalation


@given(
    IDS, NAMES, NAMES, st.lists(st.integers(1, 1000), min_size=1, max_size=50), st.floats(0, 1e6)
)
def test_answers_round_trip(
    sample: SampleId, model: str, version: str, weights: list[int], queue_ms: float
) -> None:
    probabilities = (np.array(weights) / sum(weights)).astype(np.float32)
    answer = CloudAnswer(sample, model, version, probabilities, queue_ms, 1.0)
    got = unpack_downlink(pack_downlink(answer))
    assert isinstance(got, CloudAnswer)
    np.testing.assert_array_equal(got.probabilities, probabilities)
    assert (got.id, got.model, got.model_version) == (sample, model, version)
    assert (got.queue_ms, got.run_ms) == (queue_ms, 1.0)


@given(
    st.builds(
        Refusal,
        id=IDS,
        code=st.sampled_from(get_args(RefusalCode)),
        message=TEXT,
        retry_after_ms=st.none() | st.integers(0, 2**40),
    )
)
def test_refusals_round_trip(refusal: Refusal) -> None:
    assert unpack_downlink(pack_downlink(refusal)) == refusal


def test_a_long_refusal_message_is_cut() -> None:
    refusal = Refusal(new_sample_id(), "malformed", "x" * 5000, None)
    got = unpack_downlink(pack_downlink(refusal))
    assert isinstance(got, Refusal)
    assert got.message == "x" * 500


def respelled(packed: bytes, **changes: Any) -> bytes:
    body = {**msgpack.unpackb(packed), **changes}
    return bytes(msgpack.packb({key: value for key, value in body.items() if value is not ...}))


def test_unknown_fields_of_a_newer_end_are_ignored() -> None:
    assert unpack_escalation(respelled(pack_escalation(ONE), later={"a": 1})) == ONE
    got = unpack_downlink(respelled(pack_downlink(ANSWER), later=1))
    assert isinstance(got, CloudAnswer)


def test_a_refusal_code_of_a_newer_cloud_passes() -> None:
    packed = pack_downlink(Refusal(new_sample_id(), "draining", "", None))
    got = unpack_downlink(respelled(packed, code="on_holiday"))
    assert isinstance(got, Refusal)
    assert str(got.code) == "on_holiday"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"v": 2}, "v is 2; this program reads version 1"),
        ({"v": ...}, "v is None"),
        ({"id": b"short"}, "id holds 5 bytes"),
        ({"id": "text" * 4}, "id is str; expected bytes"),
        ({"id": ...}, "id is NoneType"),
        ({"why": "bored"}, "why is 'bored'"),
        ({"s": [0]}, "shape s is [0]"),
        ({"s": [-1]}, "shape s is [-1]"),
        ({"s": [True]}, "shape s is [True]"),
        ({"s": [1.5]}, "shape s is [1.5]"),
        ({"s": [2**31]}, "shape s is"),
        ({"s": [1] * 9}, "at most 8 sizes"),
        ({"s": "28"}, "s is str; expected list"),
        ({"ec": 1.01}, "ec is 1.01"),
        ({"ec": -0.01}, "ec is -0.01"),
        ({"ec": math.nan}, "ec is nan"),
        ({"ec": None}, "ec is NoneType"),
        ({"ec": True}, "ec is bool"),
        ({"left": -1}, "left is -1 ms"),
        ({"left": 1.5}, "left is float; expected int"),
        ({"ts": "now"}, "ts is str"),
        ({"el": 1.0}, "el is float"),
        ({"d": "text"}, "d is str; expected bytes"),
        ({"m": b"bytes"}, "m is bytes; expected str"),
        ({"m": ...}, "m is NoneType"),
        ({"tp": 1}, "tp is int"),
        ({"dict": 1}, "dict is int"),
        ({"sh": 0.0}, "sh is 0.0"),
        ({"sh": 1.01}, "sh is 1.01"),
        ({"sh": math.nan}, "sh is nan"),
        ({"sh": "all"}, "sh is str"),
    ],
)
def test_an_escalation_that_does_not_fit(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Malformed) as refusal:
        unpack_escalation(respelled(pack_escalation(ONE), **changes))
    assert said in str(refusal.value)


def test_a_message_of_an_agent_that_knew_no_shares_was_sent_whatever_happened() -> None:
    audit = replace(ONE, reason="audit", share=0.01)
    assert unpack_escalation(respelled(pack_escalation(audit), sh=...)).share == 1.0
    assert b"sh" not in pack_escalation(ONE), "nor does one that was sent for sure say so"


def test_whole_numbers_pass_for_floats() -> None:
    assert unpack_escalation(respelled(pack_escalation(ONE), ts=7, ec=1)).captured_at == 7.0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"k": "gossip"}, "k is 'gossip'"),
        ({"k": ...}, "k is 'None'"),
        ({"p": b""}, "0 bytes, not whole float32"),
        ({"p": b"12345"}, "5 bytes, not whole float32"),
        ({"p": np.array([0.4, 0.4], "<f4").tobytes()}, "no distribution"),
        ({"p": np.array([np.nan, 1], "<f4").tobytes()}, "no distribution"),
        ({"p": np.array([np.inf, 0], "<f4").tobytes()}, "no distribution"),
        ({"p": np.array([-0.5, 1.5], "<f4").tobytes()}, "no distribution"),
        ({"m": "m" * 65}, "m must be at most 64 printable characters"),
        ({"mv": "1\x1b[2J"}, "mv must be at most 64 printable characters"),
        ({"q": "soon"}, "q is str"),
        ({"v": 9}, "v is 9"),
    ],
)
def test_an_answer_that_does_not_fit(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(Malformed) as refusal:
        unpack_downlink(respelled(pack_downlink(ANSWER), **changes))
    assert said in str(refusal.value)


@pytest.mark.parametrize("again", [-1, 1.5, "soon", True])
def test_a_refusal_that_does_not_fit(again: object) -> None:
    packed = pack_downlink(Refusal(new_sample_id(), "draining", "", None))
    with pytest.raises(Malformed, match="milliseconds or nothing"):
        unpack_downlink(respelled(packed, again=again))


@pytest.mark.parametrize("unpack", [unpack_escalation, unpack_downlink])
@pytest.mark.parametrize(
    "message",
    [b"", b"\xc1", b"{}", b"\x93\x01\x02\x03", b"\x81\xa1v", b"\x91" * 5000, b"\x01\x02", b"\xff"],
)
def test_a_message_that_is_not_ours(unpack: Any, message: bytes) -> None:
    with pytest.raises(Malformed):
        unpack(message)


def test_a_message_over_the_bound() -> None:
    with pytest.raises(TooLarge, match=f"at most {MESSAGE_BYTES_MAX}"):
        unpack_escalation(bytes(MESSAGE_BYTES_MAX + 1))


@given(st.data())
def test_whatever_the_bytes_the_refusal_is_ours(data: st.DataObject) -> None:
    packed = data.draw(st.sampled_from([pack_escalation(ONE), pack_downlink(ANSWER)]))
    content = bytearray(packed)
    for _ in range(data.draw(st.integers(0, 6))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    for unpack in (unpack_escalation, unpack_downlink):
        try:
            unpack(bytes(content[: data.draw(st.integers(0, len(content)))]))
        except HybridgeError:
            continue


@given(st.binary(max_size=300))
def test_random_bytes(content: bytes) -> None:
    with pytest.raises(Malformed):
        unpack_escalation(content)


def test_the_id_is_a_uuid() -> None:
    assert isinstance(unpack_escalation(pack_escalation(ONE)).id, UUID)
