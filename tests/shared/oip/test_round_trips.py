"""Whatever one side encodes, the other decodes to the same."""

import contextlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from shared.errors import Malformed, TooLarge
from shared.oip.datatypes import datatype_of, numpy_dtype
from shared.oip.request import InferRequest, RequestedOutput, decode_request, encode_request
from shared.oip.response import InferResponse, decode_response, encode_response
from shared.oip.tensors import Tensor

DATATYPES = (
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "FP32", "FP64",
)  # fmt: skip
PARAMETERS = st.dictionaries(
    st.text(max_size=5).filter(lambda name: "binary" not in name),
    st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    max_size=3,
)  # fmt: skip


@st.composite
def arrays(draw: st.DrawFn, *, finite: bool) -> np.ndarray[Any, np.dtype[Any]]:
    shape = draw(hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    if draw(st.booleans()):
        count = int(np.prod(shape))
        texts = st.text(max_size=4).map(str.encode) if finite else st.binary(max_size=4)
        array = np.empty(count, object)
        array[:] = draw(st.lists(texts, min_size=count, max_size=count))
        return array.reshape(shape)
    dtype = numpy_dtype(draw(st.sampled_from(DATATYPES)))
    odd = None if dtype.kind != "f" else not finite
    elements = hnp.from_dtype(dtype, allow_nan=odd, allow_infinity=odd)
    return draw(hnp.arrays(dtype, shape, elements=elements))


def tensors(*, finite: bool) -> st.SearchStrategy[tuple[Tensor, ...]]:
    names = st.lists(st.text(min_size=1, max_size=5), max_size=3, unique=True)
    return names.flatmap(
        lambda chosen: st.tuples(
            *(st.builds(Tensor, st.just(name), arrays(finite=finite)) for name in chosen)
        )
    )


def same(got: tuple[Tensor, ...], sent: tuple[Tensor, ...]) -> None:
    assert [t.name for t in got] == [t.name for t in sent]
    for a, b in zip(got, sent, strict=True):
        assert (a.shape, a.datatype) == (b.shape, b.datatype)
        assert a.array.dtype == b.array.dtype
        np.testing.assert_array_equal(a.array, b.array)


@given(st.data(), st.booleans(), st.text(max_size=10), PARAMETERS, st.booleans())
def test_requests(
    data: st.DataObject, binary: bool, identity: str, parameters: dict[str, Any], all_binary: bool
) -> None:
    sent = InferRequest(
        data.draw(tensors(finite=not binary)),
        (RequestedOutput("a", binary=True), RequestedOutput("b", parameters={"k": 1})),
        identity, parameters, all_binary,
    )  # fmt: skip
    encoded = encode_request(sent, binary=binary)
    length = None if encoded.header_bytes is None else str(encoded.header_bytes)
    got = decode_request(encoded.body, length)
    same(got.inputs, sent.inputs)
    assert (got.outputs, got.id, got.parameters, got.binary_data_output) == (
        sent.outputs, sent.id, sent.parameters, sent.binary_data_output,
    )  # fmt: skip
    assert encoded.headers.get("Inference-Header-Content-Length") == length


@given(st.data(), PARAMETERS)
def test_responses_with_each_output_in_its_own_form(
    data: st.DataObject, parameters: dict[str, Any]
) -> None:
    outputs = data.draw(tensors(finite=True))
    wanted = [(t.name, data.draw(st.booleans())) for t in outputs]
    sent = InferResponse("m", "1", outputs, "id", parameters)
    encoded = encode_response(sent, wanted)
    length = None if encoded.header_bytes is None else str(encoded.header_bytes)
    got = decode_response(bytearray(encoded.body), length)
    same(got.outputs, outputs)
    assert (got.model_name, got.model_version, got.id) == ("m", "1", "id")
    assert got.parameters == parameters


_WHOLE = encode_request(
    InferRequest(
        (Tensor("x", np.arange(6, dtype=np.uint8).reshape(2, 3)),),
        (RequestedOutput("y", binary=True),), "id", {"wait": "final"},
    )
)  # fmt: skip


@given(
    st.lists(st.tuples(st.integers(0, len(_WHOLE.body) - 1), st.binary(max_size=3)), max_size=4),
    st.none() | st.integers(-1, 2 * len(_WHOLE.body)).map(str) | st.just(str(_WHOLE.header_bytes)),
)
def test_a_damaged_request_is_read_or_refused_and_nothing_else(
    damage: list[tuple[int, bytes]], length: str | None
) -> None:
    body = bytearray(_WHOLE.body)
    for at, new in damage:
        body[at : at + 1] = new
    with contextlib.suppress(Malformed, TooLarge):
        decode_request(body, length)


def test_binary_inputs_are_views_that_nobody_can_write_to() -> None:
    encoded = encode_request(InferRequest((Tensor("x", np.arange(8, dtype=np.uint8)),)))
    body = bytearray(encoded.body)
    array = decode_request(body, str(encoded.header_bytes)).inputs[0].array
    assert not array.flags.writeable
    body[-1] = 99
    assert array[-1] == 99


def test_a_big_endian_array_travels_little_endian() -> None:
    sent = Tensor("x", np.array([1, 2], ">i4"))
    encoded = encode_request(InferRequest((sent,)))
    assert encoded.body.endswith(b"\x01\0\0\0\x02\0\0\0")


def test_json_does_not_carry_what_it_cannot() -> None:
    nan = InferResponse("m", "1", (Tensor("x", np.array([np.nan], np.float32)),))
    with pytest.raises(Malformed, match="binary can"):
        encode_response(nan)
    raw = np.empty(1, object)
    raw[0] = b"\xff"
    with pytest.raises(Malformed, match="ask for it as binary"):
        encode_response(InferResponse("m", "1", (Tensor("x", raw),)))


@pytest.mark.parametrize("dtype", ["c8", "M8[s]", "S3", "U3", "f16"])
def test_dtypes_that_the_protocol_does_not_have(dtype: str) -> None:
    with pytest.raises(Malformed, match="no datatype"):
        datatype_of(np.dtype(dtype))
