"""`/openapi.json` is complete, and the API is as it says: schemathesis, all checks, every route."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cloud.api.servers import LANES, MODEL, Running, lanes, server

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
NO_PROBLEM = 400


@pytest.fixture(scope="module", params=LANES)
def whole(request: pytest.FixtureRequest, folder: Path) -> Any:
    """With every route: the asynchronous tier's, too."""
    with server(folder, request.param, with_jobs=True) as running:
        yield running


def operations(running: Running) -> dict[str, dict[str, Any]]:
    paths = running.get("/openapi.json").json["paths"]
    return {
        f"{method.upper()} {path}": operation
        for path, methods in paths.items() for method, operation in methods.items()
    }  # fmt: skip


def test_every_route_is_described(whole: Running) -> None:
    described = operations(whole)
    served = {
        f"{route.method} {route.resource.canonical}"
        for route in whole.api.http.runner.app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    assert set(described) == served
    for name in (
        "GET /v2", "GET /v2/health/live", "GET /v2/models/{model}/versions/{version}/config",
        "POST /v2/models/{model}/infer", "POST /v2/repository/index", "GET /v1/results/{id}",
        "GET /v1/status", "GET /metrics", "GET /openapi.json", "GET /v2/models/stats",
    ):  # fmt: skip
        assert name in described
    assert len({operation["operationId"] for operation in described.values()}) == len(described)


def test_every_answer_has_its_headers_and_every_error_is_a_problem(whole: Running) -> None:
    document = whole.get("/openapi.json").json
    for name, operation in operations(whole).items():
        assert any(int(code) < NO_PROBLEM for code in operation["responses"]), name
        for code, said in operation["responses"].items():
            response = said
            if "$ref" in said:
                response = document["components"]["responses"][said["$ref"].rsplit("/")[-1]]
                assert list(response["content"]) == ["application/problem+json"]
            assert {"X-Request-Id", "traceparent"} <= set(response["headers"]), (name, code)


def test_whoever_must_say_who_he_is_finds_how(whole: Running) -> None:
    document = whole.get("/openapi.json").json
    assert set(document["components"]["securitySchemes"]) == {"bearer", "key"}
    for route in whole.api.routes:
        operation = document["paths"][route.path][route.method.lower()]
        assert ("401" in operation["responses"]) == (route.role is not None)
        assert ({"bearer": []} in operation["security"]) == (route.role is not None)


def schemathesis(running: Running, folder: Path, *arguments: str, hooks: bool = False) -> str:
    """What it printed; fails where any check did. What it remembers goes into `folder`."""
    command = [
        sys.executable, "-m", "schemathesis.cli", f"--config-file={HERE / 'schemathesis.toml'}",
        "run", running.url + "/openapi.json", "--checks=all", "--seed=1", "--no-color",
        "--generation-database=:memory:", *arguments,
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    if hooks:
        environment["SCHEMATHESIS_HOOKS"] = "tests.cloud.api.schemathesis_hooks"
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def generated(output: str) -> int:
    found = re.search(r"(\d+) generated", output)
    assert found is not None, output
    return int(found[1])


def fuzz(running: Running, folder: Path, examples: int) -> None:
    """Once with what it makes up, and once so that calls reach the models."""
    everything = schemathesis(running, folder, f"--max-examples={examples}")
    assert generated(everything) > 500
    calls = schemathesis(
        running, folder, f"--max-examples={examples * 5}", "--mode=positive", "--phases=fuzzing",
        "--include-path-regex=/infer$", hooks=True,
    )  # fmt: skip
    assert generated(calls) >= examples
    (told,) = running.get(f"/v2/models/{MODEL}/stats").json["model_stats"]
    assert told["inference_stats"]["success"]["count"] >= examples


def test_the_api_is_as_it_says(folder: Path, tmp_path: Path) -> None:
    with server(folder, "fast", with_jobs=True) as running:
        fuzz(running, tmp_path, examples=3)


@pytest.mark.slow
@lanes
def test_the_api_is_as_it_says_at_length(folder: Path, tmp_path: Path, lane: str) -> None:
    with server(folder, lane, with_jobs=True) as running:
        fuzz(running, tmp_path, examples=20)
