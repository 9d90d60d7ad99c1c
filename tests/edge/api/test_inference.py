"""Inference over plain HTTP: what `curl` sends, and what it must not get away with."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from edge.api.settings import Limits
from tests.edge.api.fake_agent import FakeAgent
from tests.edge.api.running import BRIGHT, DARK, GREY, images, running

INFER = "/v2/models/tiny-edge/infer"


def request(*shades: int, **members: Any) -> dict[str, Any]:
    rows = images(*shades)
    tensor = {
        "name": "image", "datatype": "UINT8", "shape": list(rows.shape), "data": rows.tolist(),
    }  # fmt: skip
    return {"inputs": [tensor], **members}


async def post(
    body: object, *, path: str = INFER, agent: FakeAgent | None = None, limits: Limits | None = None
) -> tuple[int, Mapping[str, Any]]:
    async with running(agent, limits) as server, server.http.post(path, json=body) as response:
        return response.status, await response.json(content_type=None)


def test_nested_json_in_and_json_out() -> None:
    status, answer = asyncio.run(post(request(DARK, id="mine")))
    assert status == 200
    outputs = {output["name"]: output["data"] for output in answer["outputs"]}
    assert outputs == {
        "label": ["dark"], "index": [0], "confidence": [1.0], "source": ["edge"], "final": [True],
        "sample_id": [answer["parameters"]["sample_id"]], "answered_by": ["1.2.3"],
    }  # fmt: skip
    assert (answer["id"], answer["model_name"]) == ("mine", "tiny-edge")


def test_an_unsure_answer_comes_at_once_and_says_that_it_is_not_final() -> None:
    status, answer = asyncio.run(post(request(GREY)))
    assert status == 200
    assert answer["parameters"]["source"] == "edge"
    assert answer["parameters"]["final"] is False


def test_waiting_ends_with_the_deadline_and_the_provisional_answer() -> None:
    status, answer = asyncio.run(post(request(GREY, BRIGHT, parameters={"wait_ms": 1})))
    assert status == 200
    outputs = {output["name"]: output["data"] for output in answer["outputs"]}
    assert outputs["final"] == [False, True]
    assert "parameters" not in answer  # they speak of one sample; the outputs of each


def test_nobody_waits_longer_than_the_full_deadline() -> None:
    limits = Limits(wait_ms_max=1)
    body = request(GREY, parameters={"wait": "final", "wait_ms": 3_600_000})

    async def posted() -> tuple[int, Mapping[str, Any]]:
        async with asyncio.timeout(10):
            return await post(body, limits=limits)

    status, answer = asyncio.run(posted())
    assert (status, answer["parameters"]["final"]) == (200, False)


def test_a_full_agent_refuses_the_request_and_says_when_to_come_back() -> None:
    async def scenario() -> None:
        async with (
            running(FakeAgent(capacity=1)) as server,
            server.http.post(INFER, json=request(DARK, DARK)) as response,
        ):
            assert response.status == 503
            assert response.headers["Retry-After"] == "1"
            assert response.content_type == "application/problem+json"
            assert (await response.json(content_type=None))["type"].endswith(":overloaded")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("body", "path", "status", "words"),
    [
        (request(DARK), "/v2/models/other/infer", 404, "runs 'tiny-edge'"),
        (request(DARK), "/v2/models/tiny-edge/versions/9/infer", 404, "runs 1.2.3"),
        (request(DARK, parameters={"wait": "later"}), INFER, 400, "'now' or 'final'"),
        (request(DARK, parameters={"wait": "now", "wait_ms": 5}), INFER, 400, "wait='final'"),
        (request(DARK, parameters={"wait_ms": -1}), INFER, 400, "milliseconds >= 0"),
        (request(DARK, parameters={"wait_ms": "5"}), INFER, 400, "milliseconds >= 0"),
        (request(DARK, parameters={"wait_ms": True}), INFER, 400, "milliseconds >= 0"),
        (request(DARK, outputs=[{"name": "logits"}]), INFER, 404, "no 'logits'"),
        (request(*[DARK] * 4), INFER, 413, "at most 3"),
        ({"inputs": []}, INFER, 400, "'image' is missing"),
        ([], INFER, 400, "an array; expected an object"),
        (request(DARK), "/v2/models/tiny-edge/nothing", 404, "Not Found"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(
    body: object, path: str, status: int, words: str
) -> None:
    agent = FakeAgent()
    got, problem = asyncio.run(post(body, path=path, agent=agent, limits=Limits(rows_max=3)))
    assert (got, problem["status"]) == (status, status)
    assert words in problem["detail"]
    assert problem["error"] == problem["detail"]
    assert not agent.samples


def test_an_empty_body() -> None:
    async def scenario() -> None:
        async with running() as server, server.http.post(INFER) as response:
            assert response.status == 400
            assert "empty" in (await response.json(content_type=None))["detail"]

    asyncio.run(scenario())


def test_an_agent_without_its_model_is_alive_but_not_ready() -> None:
    async def scenario() -> None:
        agent = FakeAgent()
        agent.ready = False
        async with running(agent) as server:
            for path, status in {
                "/v2/health/live": 200,
                "/v2/health/ready": 503,
                "/v2/models/tiny-edge/ready": 503,
                "/v2/models/tiny-edge": 200,
                "/v1/status": 200,
            }.items():
                async with server.http.get(path) as response:
                    assert (path, response.status) == (path, status)
            async with server.http.post(INFER, json=request(DARK)) as response:
                assert response.status == 503
        assert not agent.samples

    asyncio.run(scenario())


def test_a_bug_is_a_500_that_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(FakeAgent):
        def find(self, sample: object) -> None:
            raise KeyError("a secret")

    async def scenario() -> None:
        async with (
            running(Broken()) as server,
            server.http.get("/v1/answers/01890a5d-ac96-774b-bcce-b302099a8057") as response,
        ):
            assert response.status == 500
            assert "secret" not in json.dumps(await response.json(content_type=None))
        assert "a secret" in caplog.text

    asyncio.run(scenario())
