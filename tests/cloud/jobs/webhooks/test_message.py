"""What a receiver is told."""

import json
from uuid import UUID

import numpy as np

from cloud.jobs.record import Delivery, Failure, JobId
from cloud.jobs.webhooks.message import message, message_id
from shared.oip.body import Encoded
from shared.oip.response import InferResponse, encode_response
from shared.oip.tensors import Tensor

ID = JobId(UUID(int=7))
KIB = 1024


def delivery(answer: Encoded | None, failure: Failure | None = None) -> Delivery:
    return Delivery(
        1, "owner", ID, "key-1", "https://a.example/", "tiny",
        "failed" if failure else "done", 1_700_000_000.25, answer, failure, 1, 2e9,
    )  # fmt: skip


def response(values: list[float], *, binary: bool) -> Encoded:
    tensor = Tensor("confidence", np.array(values, np.float32))
    return encode_response(InferResponse("tiny", "1", (tensor,)), [("confidence", binary)])


def test_an_answer_goes_as_it_is() -> None:
    answer = response([0.5], binary=False)
    told = message(delivery(answer), 100 * KIB)
    assert told.complete
    assert json.loads(told.body) == {
        "type": "job.done",
        "timestamp": "2023-11-14T22:13:20.250Z",
        "data": {
            "id": str(ID), "status": "done", "model": "tiny", "location": f"/v1/results/{ID}",
            "answer": json.loads(answer.body),
        },
    }  # fmt: skip
    assert message_id(delivery(answer)) == f"msg_{ID}"


def test_a_binary_answer_goes_as_json() -> None:
    told = json.loads(message(delivery(response([0.5, 0.25], binary=True)), 100 * KIB).body)
    (output,) = told["data"]["answer"]["outputs"]
    assert output == {"name": "confidence", "datatype": "FP32", "shape": [2], "data": [0.5, 0.25]}


def test_what_json_cannot_say_is_left_out_in_words() -> None:
    told = message(delivery(response([float("nan")], binary=True)), 100 * KIB)
    data = json.loads(told.body)["data"]
    assert not told.complete
    assert "answer" not in data
    assert "NaN" in data["answer_left_out"]


def test_an_answer_that_is_too_long_is_left_out_in_words() -> None:
    told = message(delivery(response([0.5] * 1000, binary=False)), 1 * KIB)
    data = json.loads(told.body)["data"]
    assert (told.complete, "answer" in data) == (False, False)
    assert "fetch it" in data["answer_left_out"]
    assert len(told.body) < KIB


def test_a_failure_is_told() -> None:
    failure = Failure("poison", "Unavailable", "it kills")
    told = json.loads(message(delivery(None, failure), KIB).body)
    assert told["type"] == "job.failed"
    assert told["data"]["error"] == {"reason": "poison", "detail": "it kills"}
