"""curl, as people type it."""

import gzip
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import zstandard

from tests.cloud.api.servers import INFER, Running, tensor

CALL = json.dumps({"inputs": [tensor(9)], "outputs": [{"name": "label"}, {"name": "index"}]})
DEADLINE_S = 20

pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


def curl(running: Running, path: str, *arguments: str) -> str:
    command = ["curl", "-sS", "--max-time", str(DEADLINE_S), *arguments, running.url + path]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_json_in_and_out(running: Running) -> None:
    answer = json.loads(curl(running, INFER, "-d", CALL))
    assert [output["name"] for output in answer["outputs"]] == ["label", "index"]
    assert answer["outputs"][1]["shape"] == [1]


def test_a_problem_is_json_with_its_status(running: Running) -> None:
    answer = curl(running, "/v2/models/none/infer", "-d", CALL, "-w", "%{http_code}")
    assert answer.endswith("404")
    assert json.loads(answer[:-3])["title"] == "Not Found"


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_packed_body(running: Running, tmp_path: Path, encoding: str) -> None:
    packed = {"gzip": gzip.compress, "zstd": zstandard.compress}[encoding](CALL.encode())
    (tmp_path / "body").write_bytes(packed)
    answer = curl(
        running, INFER, "--data-binary", f"@{tmp_path}/body", "-H", f"Content-Encoding: {encoding}"
    )
    assert json.loads(answer)["model_name"] == "tiny-cloud"


def test_a_packed_answer(running: Running, tmp_path: Path) -> None:
    (tmp_path / "body").write_text(json.dumps({"inputs": [tensor(*range(250))]}))
    headers = tmp_path / "headers"
    answer = curl(
        running, INFER, "--compressed", "--data-binary", f"@{tmp_path}/body", "-D", str(headers)
    )
    assert json.loads(answer)["outputs"][0]["shape"] == [250, 3]
    assert "Content-Encoding: " in headers.read_text()


def test_a_big_body_asks_before_it_is_sent(running: Running, tmp_path: Path) -> None:
    """curl sends Expect by itself from 1 MiB on."""
    (tmp_path / "body").write_bytes(json.dumps({"inputs": [tensor(1)]}).encode().ljust(2**20 + 9))
    ask = ("--data-binary", f"@{tmp_path}/body", "-H", "Expect: 100-continue", "-v")
    command = ["curl", "-sS", "--max-time", str(DEADLINE_S), *ask, running.url + INFER]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "HTTP/1.1 100 Continue" in done.stderr
    assert json.loads(done.stdout)["status"] == 413  # too much JSON
    command[-1] = running.url + "/v2/models/none/infer"
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "100 Continue" not in done.stderr
    assert json.loads(done.stdout)["status"] == 404


def test_the_rest_by_get(running: Running) -> None:
    for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/tiny-cloud", "/openapi.json"):  # fmt: skip
        assert json.loads(curl(running, path, "-f"))
    assert "hybridge_http_connections" in curl(running, "/metrics", "-f")
