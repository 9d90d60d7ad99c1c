"""Reading a call and writing its answer, without a transport."""

import gc
import json
import math
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cloud.api.answer import answer_header, answer_parts, write_answer
from cloud.api.call import InferCall, Tier, json_bytes, read_call, rows_of
from cloud.api.settings import CallLimits
from cloud.serving.job import Outputs, Priority
from shared.bundle.manifest import Manifest
from shared.bundle.reader import open_bundle
from shared.errors import Malformed, Refused, TooLarge, Unavailable, Unknown
from shared.oip.request import InferRequest, RequestedOutput, encode_request
from shared.oip.response import InferResponse, decode_response
from shared.oip.signature import Signature, TensorSpec
from shared.oip.tensors import Tensor
from tests.cloud.api.servers import MODEL, bundles, tensor

LIMITS = CallLimits(rows_max=8, json_bytes_max=64 * 1024)
READ_S_MAX, READ_BYTES_MAX = 0.25, 25 * LIMITS.json_bytes_max
"""What reading any body may take, of the processor: 64 KiB of JSON take 1 ms."""
OUTPUTS = ("logits", "probabilities", "label", "index", "confidence", "source")
SIGNATURE = Signature(
    MODEL, ("1.0.0",), "onnxruntime",
    (TensorSpec("image", "UINT8", (-1, 4, 4)),),
    (
        TensorSpec("logits", "FP32", (-1, 3)), TensorSpec("probabilities", "FP32", (-1, 3)),
        TensorSpec("label", "BYTES", (-1,)), TensorSpec("index", "INT64", (-1,)),
        TensorSpec("confidence", "FP32", (-1,)), TensorSpec("source", "BYTES", (-1,)),
    ),
)  # fmt: skip
FLOATS = Signature(
    "floats", ("1.0.0",), "x", (TensorSpec("x", "FP32", (-1, 2)),), (TensorSpec("y", "FP32", (-1, 2)),)
)  # fmt: skip
IMAGES = np.arange(32, dtype=np.uint8).reshape(2, 4, 4)
PROBABILITIES = np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]], np.float32)
RAN = Outputs(np.log(PROBABILITIES), PROBABILITIES)


@pytest.fixture(autouse=True, scope="module")
def _small_heap() -> Iterator[None]:
    """What is timed here is not the garbage of all tests before."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    return open_bundle(bundles(tmp_path_factory.mktemp("call"))[0]).manifest


def read(document: Any, header_length: str | None = None) -> InferCall:
    return read_call(json.dumps(document).encode(), header_length, SIGNATURE, LIMITS)


def asked(*names: str, **parameters: Any) -> InferCall:
    outputs = [{"name": name} for name in names]
    return read({"inputs": [tensor(1)], "outputs": outputs, "parameters": parameters})


def binary(request: InferRequest) -> tuple[bytes, str]:
    encoded = encode_request(request)
    return encoded.body, str(encoded.header_bytes)


def test_rows_that_came_as_binary_are_a_view() -> None:
    body, length = binary(InferRequest((Tensor("image", IMAGES),), id="a", binary_data_output=True))
    call = read_call(body, length, SIGNATURE, LIMITS)
    assert np.array_equal(call.rows, IMAGES)
    assert np.shares_memory(call.rows, np.frombuffer(body, np.uint8))
    assert (call.asked.binary, call.asked.shape, call.asked.dtype) == (True, (2, 4, 4), np.uint8)
    assert call.asked.wanted == tuple((name, True) for name in OUTPUTS)
    assert call.asked.all_binary
    assert call.asked.id == "a"


def test_the_same_header_with_other_rows_need_not_be_read_again() -> None:
    body, length = binary(InferRequest((Tensor("image", IMAGES),)))
    call = read_call(body, length, SIGNATURE, LIMITS)
    other = (IMAGES[::-1] + 1).tobytes()
    assert rows_of(call.asked, memoryview(other)).tobytes() == other
    again = read_call(body[: int(length)] + other, length, SIGNATURE, LIMITS)
    assert again.asked == call.asked
    for wrong in (other[1:], other + b"x", b""):
        with pytest.raises(Malformed, match="binary_data_size"):
            rows_of(call.asked, wrong)
        with pytest.raises(Malformed):
            read_call(body[: int(length)] + wrong, length, SIGNATURE, LIMITS)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_refused_both_ways(wrong: float) -> None:
    good = np.array([[1.0, 2.0]], np.float32)
    body, length = binary(InferRequest((Tensor("x", good),)))
    call = read_call(body, length, FLOATS, LIMITS)
    bad = np.array([[1.0, wrong]], np.float32).tobytes()
    with pytest.raises(Malformed, match="finite"):
        rows_of(call.asked, bad)
    with pytest.raises(Malformed, match="finite"):
        read_call(body[: int(length)] + bad, length, FLOATS, LIMITS)


def test_rows_that_came_as_json_are_not_behind_the_header() -> None:
    call = read({"inputs": [tensor(7, 9)]})
    assert not call.asked.binary
    assert call.rows[1, 0, 0] == 9
    assert call.asked.wanted == tuple((name, False) for name in OUTPUTS)


def test_what_a_call_asks_for_by_default() -> None:
    call = read({"inputs": [tensor(1)]}).asked
    assert (call.tier, call.timeout_s, call.within_s, call.priority, call.webhook) == (
        Tier.FULL, None, 1.0, Priority.INTERACTIVE, None,
    )  # fmt: skip


def test_the_fast_tier_answers_in_short() -> None:
    call = asked(tier="fast").asked
    assert [name for name, _ in call.wanted] == ["label", "confidence", "source"]
    assert call.within_s == 0.2
    assert asked("logits", tier="fast").asked.wanted == (("logits", False),)


def test_the_fast_tier_of_a_model_without_labels_answers_all_it_has() -> None:
    body = {
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [1, 2]}],
        "parameters": {"tier": "fast"},
    }
    call = read_call(json.dumps(body).encode(), None, FLOATS, LIMITS)
    assert call.asked.wanted == (("y", False),)


def test_a_timeout_is_a_deadline_in_microseconds() -> None:
    assert asked(timeout=1500).asked.within_s == 0.0015
    assert asked(timeout=0).asked.within_s == 1.0
    assert asked(timeout=2**62).asked.within_s == LIMITS.timeout_s_max


def test_nobody_waits_for_an_asynchronous_call() -> None:
    call = asked(timeout=10**9, tier="asynchronous").asked
    assert (call.timeout_s, call.within_s) == (1000.0, math.inf)  # the job takes the first along
    assert asked(tier="asynchronous").asked.timeout_s is None


@pytest.mark.parametrize(
    ("header_length", "expected"),
    [(None, 50), ("20", 20), ("90", 50), ("", 50), ("-1", 50), ("\u0662", 50), ("2e1", 50)],
)
def test_a_header_length_that_is_nonsense_makes_all_of_a_body_json(
    header_length: str | None, expected: int
) -> None:
    assert json_bytes(50, header_length) == expected


@pytest.mark.parametrize("timeout", [-1, 2**63, 10**400, 1.5, True, "1", "NaN"])
def test_any_other_timeout_is_refused(timeout: Any) -> None:
    with pytest.raises(Malformed, match="timeout"):
        asked(timeout=timeout)


@pytest.mark.parametrize(
    ("sent", "means"),
    [(0, Priority.INTERACTIVE), (1, Priority.INTERACTIVE), (2, Priority.NEAR_LINE), (3, Priority.BULK)],
)  # fmt: skip
def test_priorities(sent: int, means: Priority) -> None:
    assert asked(priority=sent).asked.priority is means


@pytest.mark.parametrize("priority", [-1, 4, 2**64, 1.0, True, "2"])
def test_any_other_priority_is_refused(priority: Any) -> None:
    with pytest.raises(Malformed, match="priority"):
        asked(priority=priority)


@pytest.mark.parametrize("tier", ["", "FAST", "slow", 1, True, "x" * 1000])
def test_any_other_tier_is_refused(tier: Any) -> None:
    with pytest.raises(Malformed, match="tier"):
        asked(tier=tier)


def test_a_webhook_goes_with_the_asynchronous_tier_alone() -> None:
    url = "https://receiver.example/results"
    assert asked(tier="asynchronous", webhook=url).asked.webhook == url
    with pytest.raises(Malformed, match="webhook goes with"):
        asked(webhook=url)
    for wrong in (7, "", "x" * 2049):
        with pytest.raises(Malformed, match="webhook must be"):
            asked(tier="asynchronous", webhook=wrong)


def test_parameters_that_nobody_knows_are_kept_for_who_does() -> None:
    assert asked(tier="fast", flavour="sweet").asked.parameters["flavour"] == "sweet"


@pytest.mark.parametrize(
    ("inputs", "error", "words"),
    [
        ([], Malformed, "'image' is missing; send UINT8"),
        ([tensor(1, name="picture")], Unknown, "no 'picture'; tiny-cloud takes image"),
        ([tensor(1), tensor(1)], Malformed, "2 times"),
        ([tensor(1, datatype="INT8")], Malformed, r"is INT8\[1, 4, 4\]; send UINT8\[N,4,4\]"),
        ([tensor(1, datatype="UINT4")], Malformed, "datatype is 'UINT4'"),
        ([tensor(1, shape=[1, 16])], Malformed, r"has shape \[1, 16\]"),
        ([tensor(1, shape=[2, 4, 4])], Malformed, "takes 32 elements; data has 16"),
        ([tensor(1, shape=[-1, 4, 4])], Malformed, "integers >= 0"),
        ([tensor(1, shape=[1.0, 4, 4])], Malformed, "integers >= 0"),
        ([tensor(1, shape=[2**62, 2**62, 4])], TooLarge, "elements"),
        ([tensor(shape=[0, 4, 4])], Malformed, "has shape"),
        ([tensor(256)], Malformed, "does not fit UINT8"),
        ([tensor(-1)], Malformed, "does not fit UINT8"),
        ([tensor(*range(9))], TooLarge, "9 rows in one request; send at most 8"),
    ],
)
def test_inputs_that_do_not_fit(inputs: Any, error: type[Refused], words: str) -> None:
    with pytest.raises(error, match=words):
        read({"inputs": inputs})


@pytest.mark.parametrize("size", [-1, 0, 15, 17, 2**63, 2**64, 16.0, "16", True, None])
def test_binary_sizes_that_lie(size: Any) -> None:
    image = tensor(1)
    del image["data"]
    header = json.dumps({"inputs": [{**image, "parameters": {"binary_data_size": size}}]}).encode()
    with pytest.raises(Malformed):
        read_call(header + bytes(16), str(len(header)), SIGNATURE, LIMITS)


@pytest.mark.parametrize("length", ["-1", "0", "1e2", "", " 20", "999", "9" * 30, "²", "0x10"])
def test_header_lengths_that_lie(length: str) -> None:
    with pytest.raises(Malformed):
        read({"inputs": [tensor(1)]}, length)


def test_an_output_that_is_not_there() -> None:
    with pytest.raises(Unknown, match="no 'mood'; the model has logits"):
        asked("mood")


def test_json_is_bounded_and_binary_data_is_not_json() -> None:
    with pytest.raises(TooLarge, match="binary data"):
        read_call(b" " * (LIMITS.json_bytes_max + 1), None, SIGNATURE, LIMITS)
    body, length = binary(InferRequest((Tensor("image", IMAGES),)))
    tight = CallLimits(json_bytes_max=int(length))
    assert len(read_call(body, length, SIGNATURE, tight).rows) == 2
    with pytest.raises(TooLarge):
        read_call(body, length, SIGNATURE, CallLimits(json_bytes_max=int(length) - 1))


def decoded(call: InferCall, manifest: Manifest) -> InferResponse:
    encoded = write_answer(call.asked, manifest, RAN, "1.0.0", "cloud")
    length = None if encoded.header_bytes is None else str(encoded.header_bytes)
    return decode_response(encoded.body, length)


@pytest.mark.parametrize("as_binary", [True, False])
def test_every_output_both_ways(manifest: Manifest, as_binary: bool) -> None:
    request = InferRequest((Tensor("image", IMAGES),), id="a", binary_data_output=as_binary)
    body, length = binary(request)
    answer = decoded(read_call(body, length, SIGNATURE, LIMITS), manifest)
    assert (answer.model_name, answer.model_version, answer.id) == (MODEL, "1.0.0", "a")
    assert answer.parameters == {"source": "cloud"}
    found = {output.name: output for output in answer.outputs}
    assert tuple(found) == OUTPUTS
    for spec in SIGNATURE.outputs:
        assert found[spec.name].datatype == spec.datatype
        assert found[spec.name].shape == (2, *spec.shape[1:])
    assert np.array_equal(found["logits"].array, RAN.logits)
    assert np.array_equal(found["probabilities"].array, PROBABILITIES)
    assert found["label"].array.tolist() == [b"class-2", b"class-0"]
    assert found["index"].array.tolist() == [2, 0]
    assert np.allclose(found["confidence"].array, [0.7, 0.5])
    assert found["source"].array.tolist() == [b"cloud", b"cloud"]


def test_outputs_come_in_the_order_in_which_they_were_asked_for(manifest: Manifest) -> None:
    wanted = (RequestedOutput("index", True), RequestedOutput("label"), RequestedOutput("logits", True))  # fmt: skip
    body, length = binary(InferRequest((Tensor("image", IMAGES),), wanted))
    answer = decoded(read_call(body, length, SIGNATURE, LIMITS), manifest)
    assert [output.name for output in answer.outputs] == ["index", "label", "logits"]
    assert np.array_equal(answer.outputs[2].array, RAN.logits)


def test_the_header_depends_on_the_outputs_through_their_sizes_alone(manifest: Manifest) -> None:
    call = read({"inputs": [tensor(1, 2)], "parameters": {"binary_data_output": True}}).asked
    other = Outputs(RAN.logits[::-1].copy(), PROBABILITIES[::-1].copy())
    headers = set()
    for ran in (RAN, other):
        parts = answer_parts(call, manifest, ran, "cloud")
        sizes = [len(p) if isinstance(p, bytes) else p.nbytes for p in parts]
        header = answer_header(call, manifest, 2, "1.0.0", "cloud", sizes)
        headers.add(header)
        whole = write_answer(call, manifest, ran, "1.0.0", "cloud")
        assert whole.body == header + b"".join(parts)
    assert len(headers) == 1


def test_a_model_that_gives_no_numbers_is_not_the_callers_fault(manifest: Manifest) -> None:
    nan = np.full((1, 3), np.nan, np.float32)
    call = read({"inputs": [tensor(1)], "outputs": [{"name": "logits"}]}).asked
    with pytest.raises(Unavailable, match="NaN"):
        write_answer(call, manifest, Outputs(nan, nan), "1.0.0", "cloud")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=8), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip
names = st.sampled_from(["image", "logits", "label", "x", ""])
some_tensors = st.fixed_dictionaries(
    {},
    optional={
        "name": names | values,
        "datatype": st.sampled_from(["UINT8", "BYTES", "FP32", "BOOL", "INT64"]) | values,
        "shape": st.lists(st.integers(-2, 2**65) | st.sampled_from([0, 1, 2, 4]), max_size=9) | values,
        "data": st.lists(st.integers(-1, 256), max_size=40) | values,
        "parameters": st.dictionaries(
            st.sampled_from(["binary_data_size", "shared_memory_region", "x"]),
            st.integers(-1, 2**65) | st.floats() | values, max_size=2,
        ) | values,
    },
)  # fmt: skip
documents = st.fixed_dictionaries(
    {},
    optional={
        "id": st.text(max_size=300) | values,
        "inputs": st.lists(some_tensors | st.just(tensor(5)), max_size=3) | values,
        "outputs": st.lists(st.fixed_dictionaries({"name": names}) | values, max_size=3) | values,
        "parameters": st.dictionaries(
            st.sampled_from(["tier", "timeout", "priority", "webhook", "binary_data_output"]),
            st.sampled_from(["fast", "full", "asynchronous", 0, 2, True]) | values, max_size=4,
        ) | values,
    },
)  # fmt: skip
lengths = st.none() | st.integers(-5, 500).map(str) | st.text(max_size=5)


def outcome(body: bytes, header_length: str | None, signature: Signature = SIGNATURE) -> None:
    """An `InferCall` or `Refused`, within the bounds of time and memory."""
    began = time.thread_time()
    try:
        call = read_call(body, header_length, signature, LIMITS)
        assert call.rows.shape == call.asked.shape
        assert 1 <= len(call.rows) <= LIMITS.rows_max
        if call.asked.binary:
            size = call.rows.nbytes
            assert np.array_equal(rows_of(call.asked, body[len(body) - size :]), call.rows)
    except Refused:
        pass
    assert time.thread_time() - began < READ_S_MAX


@settings(max_examples=300, deadline=None)
@given(documents | values, lengths, st.binary(max_size=64))
@example({"inputs": [tensor(5)]}, None, b"")
def test_any_json_is_a_call_or_refused(document: Any, length: str | None, tail: bytes) -> None:
    header = json.dumps(document).encode()
    outcome(header, length)
    outcome(header + tail, str(len(header)))
    outcome(header + tail, str(len(header)), FLOATS)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300), lengths)
def test_any_bytes_are_a_call_or_refused(body: bytes, length: str | None) -> None:
    outcome(body, length)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_good_call_with_a_few_bytes_changed_is_a_call_or_refused(data: st.DataObject) -> None:
    body, length = binary(InferRequest((Tensor("image", IMAGES),), (RequestedOutput("label"),)))
    changed = bytearray(body)
    for at in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=4)):
        changed[at] = data.draw(st.integers(0, 255))
    outcome(bytes(changed), length)


_NEST = 20_000


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 60_000, b'{"a":' * 10_000, b'{"inputs":' + b"[" * _NEST + b"]" * _NEST + b"}",
        b'{"inputs":[' + b"[]," * _NEST + b"[]]}", b'{"inputs":[' + b"{}," * _NEST + b"{}]}",
        b'{"id":"' + b"x" * 60_000 + b'"}', b'{"id":' + b"9" * 60_000 + b"}",
        b'{"inputs":[{"name":"image","datatype":"UINT8","shape":[1,4,4],"data":['
        + b"[0]," * 15_000 + b"0]}]}",
        b'{"inputs":[{"name":"image","datatype":"FP32","shape":[1,4,4],"data":['
        + b"1e99," * 10_000 + b"0]}]}",
        b'{"parameters":{' + b",".join(b'"%d":0' % n for n in range(6000)) + b"}}",
    ],
    ids=range(10),
)  # fmt: skip
def test_bodies_made_to_cost_much_cost_little(body: bytes) -> None:
    assert len(body) <= LIMITS.json_bytes_max
    outcome(body, None)
    tracemalloc.start()
    try:
        with pytest.raises(Refused):
            read_call(body, None, SIGNATURE, LIMITS)
        assert tracemalloc.get_traced_memory()[1] < READ_BYTES_MAX
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("part", [b"[],", b"{},", b'"a":0,'])
def test_more_parts_than_anybody_needs_are_refused_unread(part: bytes) -> None:
    body = b'{"inputs":[' + part * 120_000 + b"0]}"
    assert len(body) <= CallLimits().json_bytes_max
    with pytest.raises(TooLarge, match="over 100000 arrays, objects and members"):
        read_call(body, None, SIGNATURE, CallLimits())
