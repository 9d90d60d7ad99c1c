"""The tier `asynchronous` from end to end: handed in, answered later, fetched by its id."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as triton

from tests.cloud.api.servers import INFER, LANES, MODEL, Running, lanes, server, tensor
from tests.cloud.api.test_access import gateway, keys
from tests.tiny_bundle import sure_image

CALL = {"inputs": [tensor(3)], "parameters": {"tier": "asynchronous"}}


@pytest.fixture(scope="module", params=LANES)
def later(request: pytest.FixtureRequest, folder: Path) -> Iterator[Running]:
    with server(folder, request.param, with_jobs=True) as running:
        yield running


def test_a_call_is_accepted_and_its_answer_fetched(later: Running) -> None:
    image = triton.InferInput("image", [1, 4, 4], "UINT8")
    image.set_data_from_numpy(sure_image(0)[np.newaxis])
    body, length = triton.InferenceServerClient.generate_request_body(
        [image], request_id="a", parameters={"tier": "asynchronous"}
    )
    accepted = later.call("POST", INFER, body, Inference_Header_Content_Length=str(length))
    assert accepted.status == 202
    assert accepted.headers["location"] == f"/v1/results/{accepted.json['id']}"
    answer = later.get(accepted.headers["location"] + "?wait_ms=10000")
    assert answer.status == 200
    length = int(answer.headers["inference-header-content-length"])
    result = triton.InferenceServerClient.parse_response_body(answer.body, header_length=length)
    assert result.as_numpy("label").tolist() == [b"class-1"]
    assert result.get_response()["id"] == "a"
    assert later.call("DELETE", accepted.headers["location"]).status == 204


def test_what_would_be_refused_is_refused_at_once(later: Running) -> None:
    wrong = {**CALL, "inputs": [tensor(3, datatype="FP64")]}
    assert later.infer(wrong).status == 400
    assert later.infer(CALL, "/v2/models/none/infer").status == 404
    hook = {**CALL, "parameters": {"tier": "asynchronous", "webhook": "http://127.0.0.1/"}}
    answer = later.infer(hook)
    assert (answer.status, answer.kind) == (400, "application/problem+json")


def test_the_same_key_is_the_same_job(later: Running) -> None:
    first, second = (later.infer(CALL, Idempotency_Key="order-7") for _ in range(2))
    assert first.json["id"] == second.json["id"]
    other = later.infer({**CALL, "inputs": [tensor(4)]}, Idempotency_Key="order-7")
    assert 400 <= other.status < 500


@lanes
def test_only_who_has_the_role_hands_work_in(folder: Path, tmp_path: Path, lane: str) -> None:
    path, made = keys(tmp_path)
    with server(folder, lane, make_gateway=gateway(path), with_jobs=True) as running:
        refused = running.infer(CALL, X_API_Key=made["infer"])
        assert (refused.status, refused.json["type"]) == (403, "urn:hybridge:problem:forbidden")
        assert "role jobs" in refused.json["detail"]
        accepted = running.infer(CALL, X_API_Key=made["jobs"])
        assert accepted.status == 202
        fetched = running.get(
            f"{accepted.headers['location']}?wait_ms=9000", X_API_Key=made["jobs"]
        )
        assert fetched.status == 200


def test_results_are_listed(later: Running) -> None:
    made = {later.infer(CALL).json["id"] for _ in range(3)}
    page = json.loads(later.get("/v1/results?limit=200").body)
    assert made <= {one["id"] for one in page["results"]}
    assert {one["model"] for one in page["results"]} == {MODEL}
    assert later.get("/v1/results?limit=0").status == 400
    assert later.get("/v1/results/nothing").status in (400, 404)
