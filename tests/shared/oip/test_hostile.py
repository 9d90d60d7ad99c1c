"""Each lie has its refusal, which names the field and what came."""

import json
import struct
import time
from typing import Any

import numpy as np
import pytest

from shared.errors import HybridgeError, Malformed, TooLarge, Unknown
from shared.oip.request import InferRequest, RequestedOutput, decode_request
from shared.oip.signature import (
    Signature,
    TensorSpec,
    inputs_for,
    model_metadata,
    server_metadata,
)
from shared.oip.tensors import Tensor


def tensor(**changes: Any) -> dict[str, Any]:
    document = {"name": "x", "datatype": "UINT8", "shape": [2, 2], "data": [1, 2, 3, 4], **changes}
    return {name: value for name, value in document.items() if value is not ...}


def body(**members: Any) -> bytes:
    return json.dumps({"inputs": [tensor()], **members}).encode()


def refusal(content: bytes, length: str | None = None) -> str:
    with pytest.raises(Malformed) as caught:
        decode_request(content, length)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"{", "is not JSON"),
        (b"\xff\xfe{}", "is not JSON"),
        (b"[]", "an array; expected an object"),
        (b"null", "null; expected an object"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"id":' + b"1" * 5000 + b"}", "is not JSON"),
        (b'{"id":"a","id":"b"}', "member 'id' stands twice"),
        (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[NaN]}]}', "NaN is not"),
        (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[-Infinity]}]}', "Infinity"),
        (b"{}", "inputs is missing"),
        (body(inputs={}), "inputs is an object; expected an array"),
        (body(inputs=[1]), "inputs[0] is an integer; expected an object"),
        (body(inputs=[tensor()] * 65), "65 items; at most 64"),
        (body(inputs=[tensor(), tensor()]), "'x' stands there 2 times"),
        (body(id=5), "id is an integer; expected a string"),
        (body(id=None), "id is null; expected a string"),
        (body(id="\ud800"), "half a surrogate pair"),
        (body(more={"\udfff": 1}), "half a surrogate pair"),
        (body(inputs=[tensor(datatype="BYTES", data=["a", "b", "\udc00", "d"])]), "surrogate"),
        (body(id="i" * 257), "257 characters; at most 256"),
        (body(parameters=[]), "parameters is an array; expected an object"),
        (body(parameters={"a": {}}), "parameters.a is an object"),
        (body(parameters={"a": None}), "parameters.a is null"),
        (body(parameters={"binary_data_output": 1}), "binary_data_output is an integer"),
        (body(outputs=[{"name": "y"}, {"name": "y"}]), "'y' stands there 2 times"),
        (body(outputs=[{}]), "outputs[0]: name is missing"),
        (body(outputs=[{"name": "y", "parameters": {"binary_data": 1}}]), "binary_data is an"),
        (body(outputs=[{"name": "y", "parameters": {"classification": 3}}]), "classification is"),
        (
            body(outputs=[{"name": "y", "parameters": {"shared_memory_region": "r"}}]),
            "shared_memory_region is not offered",
        ),
    ],
)
def test_requests(content: bytes, words: str) -> None:
    assert words in refusal(content)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": ...}, "name is missing"),
        ({"name": 7}, "name is an integer"),
        ({"datatype": ...}, "datatype is 'None'"),
        ({"datatype": "BF16"}, "datatype is 'BF16'; this server reads BOOL"),
        ({"datatype": "uint8"}, "datatype is 'uint8'"),
        ({"datatype": ["UINT8"]}, "datatype is"),
        ({"shape": ...}, "shape is missing"),
        ({"shape": "2,2"}, "shape is a string"),
        ({"shape": []}, "shape has 0 sizes; expected 1 to 8"),
        ({"shape": [1] * 9}, "shape has 9 sizes"),
        ({"shape": [-1, 4]}, "must hold integers >= 0"),
        ({"shape": [2.0, 2]}, "must hold integers >= 0"),
        ({"shape": [True, 4]}, "must hold integers >= 0"),
        ({"shape": [2, 3]}, "shape [2, 3] takes 6 elements; data has 4"),
        ({"data": ...}, "data is missing"),
        ({"data": 5}, "data is an integer"),
        ({"data": []}, "takes 4 elements; data has 0"),
        ({"data": [[1, 2], [3]]}, "at depth 1 each array must have 2 items"),
        ({"data": [[1, 2], 3]}, "at depth 1 each array must have 2 items"),
        ({"data": [[1, 2, 3, 4]]}, "shape starts with 2; data has 1 rows"),
        ({"data": [[[1], [2]], [[3], [4]]]}, "holds an array, which does not fit UINT8"),
        ({"data": [1, 2, 3, 256]}, "does not fit UINT8"),
        ({"data": [1, 2, 3, -1]}, "does not fit UINT8"),
        ({"data": [1, 2, 3, 4.0]}, "holds a number, which does not fit UINT8"),
        ({"data": [1, 2, 3, True]}, "holds a boolean, which does not fit UINT8"),
        ({"data": [1, 2, 3, None]}, "holds null, which does not fit UINT8"),
        ({"data": [1, 2, 3, "4"]}, "holds a string, which does not fit UINT8"),
        ({"datatype": "BOOL", "data": [True, False, 1, True]}, "does not fit BOOL"),
        ({"datatype": "BYTES", "data": ["a", "b", "c", 1]}, "does not fit BYTES"),
        ({"datatype": "INT64", "data": [0, 0, 0, 2**63]}, "does not fit INT64"),
        ({"datatype": "FP16", "data": [0, 0, 0, 1e6]}, "does not fit FP16"),
        ({"datatype": "FP32", "data": [0, 0, 0, 1e39]}, "does not fit FP32"),
        ({"datatype": "FP64", "data": [0, 0, 0, 10**400]}, "does not fit FP64"),
        ({"parameters": {"binary_data_size": 4}}, "both data and binary_data_size"),
        ({"parameters": {"shared_memory_region": "r"}}, "shared memory is not offered"),
        ({"data": ..., "parameters": {"binary_data_size": 4}}, "4; 0 bytes are left"),
    ],
)
def test_tensors(changes: dict[str, Any], words: str) -> None:
    message = refusal(body(inputs=[tensor(**changes)]))
    assert words in message
    assert "inputs[0]" in message


def test_an_infinity_in_disguise() -> None:
    content = body(inputs=[tensor(datatype="FP64", shape=[1], data=[1])])
    assert "does not fit FP64" in refusal(content.replace(b"[1]}", b"[1e999]}"))


@pytest.mark.parametrize("shape", [[2**62, 2**62], [2**28 + 1], [0, 2**70], [2**20, 2**20, 0]])
def test_shapes_beyond_reason(shape: list[int]) -> None:
    with pytest.raises(TooLarge, match="elements"):
        decode_request(body(inputs=[tensor(shape=shape)]))


def binary(sizes: list[object], content: bytes, datatype: str = "UINT8") -> tuple[bytes, str]:
    inputs = [
        tensor(name=f"x{index}", data=..., datatype=datatype, parameters={"binary_data_size": size})
        for index, size in enumerate(sizes)
    ]
    header = body(inputs=inputs)
    return header + content, str(len(header))


@pytest.mark.parametrize(
    ("sizes", "content", "words"),
    [
        ([4], b"123", "binary_data_size is 4; 3 bytes are left"),
        ([4], b"12345", "1 bytes follow the last tensor's binary data"),
        ([3], b"123", "UINT8[2, 2] takes 4 bytes; binary_data_size is 3"),
        ([4, 4], b"1234567", "binary_data_size is 4; 3 bytes are left"),
        ([-4], b"1234", "binary_data_size is -4"),
        ([2**64], b"1234", "binary_data_size is 18446744073709551616; 4 bytes"),
        (["4"], b"1234", "binary_data_size is a string; expected an integer"),
        ([True], b"1", "binary_data_size is a boolean; expected an integer"),
        ([4.0], b"1234", "binary_data_size is a number; expected an integer"),
    ],
)
def test_binary_sizes_that_lie(sizes: list[object], content: bytes, words: str) -> None:
    assert words in refusal(*binary(sizes, content))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\0\0\0\0" * 4 + b"\1\0", "cut short inside a length, at byte 16"),
        (b"\0\0\0\0" * 3 + struct.pack("<I", 2**32 - 1), "element 3 ends after its data"),
        (b"\0\0\0\0" * 3, "takes 4 BYTES elements; 3 were sent"),
        (b"\0\0\0\0" * 5, "takes 4 BYTES elements; 5 were sent"),
    ],
)
def test_bytes_elements_that_lie(content: bytes, words: str) -> None:
    assert words in refusal(*binary([len(content)], content, "BYTES"))


def test_bool_is_0_or_1() -> None:
    assert "neither 0 nor 1" in refusal(*binary([4], b"\0\1\2\0", "BOOL"))


@pytest.mark.parametrize("length", ["-1", "1e3", "", " 5", "٣", "9" * 13, "9" * 12])
def test_lengths_that_lie(length: str) -> None:
    assert "Inference-Header-Content-Length is" in refusal(body(), length)


def test_a_member_that_stands_twice_is_found_in_linear_time() -> None:
    """Counting each name anew would take 9 s of processor time for these 170 KB."""
    names = [f'"{number:x}":0' for number in range(20_000)]
    content = ('{"parameters":{' + ",".join([*names, names[-1]]) + "}}").encode()
    began = time.process_time()
    with pytest.raises(Malformed, match="member '4e1f' stands twice"):
        decode_request(content, None)
    assert time.process_time() - began < 1.0


def test_unknown_members_are_ignored() -> None:
    newer = decode_request(body(inputs=[tensor(novelty=1)], novelty={"a": []}))
    assert newer.inputs[0].array.tolist() == [[1, 2], [3, 4]]


SIGNATURE = Signature(
    "m", ("1",), "onnxruntime",
    (TensorSpec("a", "FP32", (-1, 2)), TensorSpec("b", "INT64", (-1,))),
    (TensorSpec("y", "FP32", (-1, 3)),),
)  # fmt: skip


def inputs(**changes: Any) -> InferRequest:
    arrays = {"a": np.zeros((3, 2), np.float32), "b": np.zeros(3, np.int64), **changes}
    named = [(name, array) for name, array in arrays.items() if array is not ...]
    return InferRequest(tuple(Tensor(name, array) for name, array in reversed(named)))


def test_inputs_come_in_the_models_order() -> None:
    assert [t.name for t in inputs_for(SIGNATURE, inputs(), 3)] == ["a", "b"]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"c": np.zeros(3)}, Unknown, "there is no 'c'; m takes a, b"),
        ({"a": ...}, Malformed, r"'a' is missing; send FP32[N,2]"),
        ({"a": np.zeros((3, 2))}, Malformed, "'a' is FP64[3, 2]; send FP32[N,2]"),
        ({"a": np.zeros((3, 3), np.float32)}, Malformed, "shape [3, 3]; send FP32[N,2]"),
        ({"a": np.zeros(2, np.float32)}, Malformed, "shape [2]; send FP32[N,2]"),
        ({"a": np.zeros((0, 2), np.float32)}, Malformed, "shape [0, 2]; send FP32[N,2]"),
        ({"a": np.full((3, 2), np.nan, np.float32)}, Malformed, "holds NaN"),
        ({"a": np.full((3, 2), -np.inf, np.float32)}, Malformed, "an infinity"),
        ({"b": np.zeros(2, np.int64)}, Malformed, "'b' has 2 rows, 'a' has 3"),
        ({"b": np.array([b"", b"", b""], object)}, Malformed, "'b' is BYTES[3]; send INT64[N]"),
        (
            {"a": np.zeros((4, 2), np.float32), "b": np.zeros(4, np.int64)},
            TooLarge,
            "4 rows in one request; send at most 3",
        ),
    ],
)
def test_inputs_that_are_not_the_models(
    changes: dict[str, Any], error: type[HybridgeError], words: str
) -> None:
    with pytest.raises(error) as caught:
        inputs_for(SIGNATURE, inputs(**changes), 3)
    assert words in str(caught.value)


def test_wanted_outputs() -> None:
    offered = ("y", "z")
    assert InferRequest(()).wanted(offered) == (("y", False), ("z", False))
    everything = InferRequest((), binary_data_output=True)
    assert everything.wanted(offered) == (("y", True), ("z", True))
    chosen = (RequestedOutput("z"), RequestedOutput("y", binary=False))
    some = InferRequest((), chosen, binary_data_output=True)
    assert some.wanted(offered) == (("z", True), ("y", False))
    with pytest.raises(Unknown, match="there is no 'logits'; the model has y, z"):
        InferRequest((), (RequestedOutput("logits"),)).wanted(offered)


def test_metadata_documents() -> None:
    assert server_metadata("s", "1") == {
        "name": "s", "version": "1", "extensions": ["binary_tensor_data"],
    }  # fmt: skip
    assert model_metadata(SIGNATURE) == {
        "name": "m", "versions": ["1"], "platform": "onnxruntime",
        "inputs": [
            {"name": "a", "datatype": "FP32", "shape": [-1, 2]},
            {"name": "b", "datatype": "INT64", "shape": [-1]},
        ],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}],
    }  # fmt: skip
