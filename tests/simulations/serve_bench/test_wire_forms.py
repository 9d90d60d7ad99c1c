import json

import numpy as np
import pytest
import tritonclient.http as triton

from simulations.serve_bench.wire_forms import HEADER_LENGTH, answer, request, v2_binary

X = np.arange(784, dtype=np.float32).reshape(1, 1, 28, 28)
Y = np.arange(10, dtype=np.float32)


def test_our_binary_request_says_what_tritonclient_says() -> None:
    wanted = triton.InferInput("x", list(X.shape), "FP32")
    wanted.set_data_from_numpy(X)
    outputs = [triton.InferRequestedOutput("y")]
    theirs, length = triton.InferenceServerClient.generate_request_body([wanted], outputs=outputs)
    ours = v2_binary("/v2/models/cnn/infer", "x", X, "y")
    cut = int(ours.headers[HEADER_LENGTH])
    assert json.loads(ours.body[:cut]) == json.loads(theirs[:length])
    assert ours.body[cut:] == theirs[length:]


def test_the_head_names_the_length_of_the_body() -> None:
    asked = request("raw", "/predict", X)
    assert b"POST /predict HTTP/1.1\r\nHost: h:1\r\nContent-Length: 3136\r\n" in asked.head("h:1")
    assert asked.head("h:1").endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({"content-type": "application/octet-stream"}, Y.tobytes()),
        ({"inference-header-content-length": "2"}, b"{}" + Y.tobytes()),
        ({"content-type": "application/json"}, json.dumps({"outputs": [{"data": Y.tolist()}]})),
        ({"content-type": "application/json"}, json.dumps([Y.tolist()])),
    ],
)
def test_every_server_s_answer_is_read(headers: dict[str, str], body: bytes | str) -> None:
    raw = body if isinstance(body, bytes) else body.encode()
    np.testing.assert_array_equal(answer(headers, raw), Y)


def test_an_answer_of_another_length_is_no_answer() -> None:
    with pytest.raises(ValueError, match="36 bytes"):
        answer({}, Y.tobytes()[:-4])
