"""`hybridge budget show` against a real worker's /metrics."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cloud.capacity.settings import Budget
from cloud.cli.__main__ import app
from shared.errors import Disconnected, Malformed, NotTrusted
from tests.cloud.workers import Worker, worker

runner = CliRunner()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    with worker(tmp_path_factory.mktemp("budget")) as one:
        one.ready()
        yield one


def ask(one: Worker, count: int) -> None:
    """So many requests, one after the other."""
    import urllib.request  # noqa: PLC0415

    tensor = {"name": "image", "shape": [1, 4, 4], "datatype": "UINT8", "data": [7] * 16}
    for _ in range(count):
        request = urllib.request.Request(
            f"{one.api}/v2/models/tiny-cloud/infer", json.dumps({"inputs": [tensor]}).encode()
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 200


def show(*arguments: str) -> tuple[int, str]:
    found = runner.invoke(app, ["budget", "show", *arguments])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.exit_code, found.output


def test_each_stage_of_a_real_workers_requests_against_its_limit(served: Worker) -> None:
    ask(served, 20)
    loose = [f"--limit={stage}=100000" for stage in ("network", "decode", "queue", "model", "encode", "total")]  # fmt: skip
    code, output = show("--url", served.api, "--json", *loose)
    found = {line["stage"]: line for line in json.loads(output)}
    assert code == 0
    assert list(found) == ["network", "decode", "queue", "model", "encode", "total"]
    assert found["model"]["count"] >= 20
    assert sum(found[stage]["share"] for stage in list(found)[:5]) == pytest.approx(1, abs=0.01)
    assert 0 < found["model"]["p50_ms"] <= found["model"]["p95_ms"] <= found["model"]["p99_ms"]
    code, output = show("--url", served.api, *loose)
    assert code == 0
    assert "met" in output
    assert "over" not in output


def test_over_a_limit_is_exit_code_1(served: Worker) -> None:
    ask(served, 5)
    code, output = show("--url", served.api, "--limit", "model=0.0001")
    assert code == 1
    assert "over" in output


def test_limits_come_from_the_workers_file_and_are_overruled_by_options(
    served: Worker, tmp_path: Path
) -> None:
    ask(served, 1)
    file = tmp_path / "cloud.toml"
    file.write_text('models = [{bundle = "x"}]\n[budget]\nmodel_ms = 0.0001\nqueue_ms = 1e6\n')
    code, output = show("--url", served.api, "--config", str(file), "--json")
    limits = {line["stage"]: line["limit_ms"] for line in json.loads(output)}
    assert code == 1
    assert (limits["model"], limits["queue"]) == (0.0001, 1e6)
    assert limits["network"] == Budget().network_ms
    _, output = show("--url", served.api, "--config", str(file), "--limit", "model=7", "--json")
    assert {line["stage"]: line["limit_ms"] for line in json.loads(output)}["model"] == 7


def test_a_look_of_some_time_leaves_out_what_was_before(served: Worker) -> None:
    ask(served, 3)
    code, output = show("--url", served.api, "--seconds", "0.01", "--json")
    assert code == 0  # nothing happened meanwhile: nothing is over
    assert {line["count"] for line in json.loads(output)} == {0}
    assert {line["p99_ms"] for line in json.loads(output)} == {None}


@pytest.mark.parametrize("limit", ["queue", "queue:5", "sleep=5", "=5"])
def test_a_limit_that_is_none_is_wrong_usage(limit: str) -> None:
    assert show("--limit", limit)[0] == 2


@pytest.mark.parametrize("limit", ["queue=0", "queue=x", "queue=inf", "queue=-1"])
def test_a_limit_that_means_nothing_is_refused(limit: str) -> None:
    with pytest.raises(Malformed, match="queue_ms"):
        show("--limit", limit)


def test_a_setting_of_the_file_that_is_not_known_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cloud.toml"
    for text, why in (("[budget]\nsleep_ms = 1\n", "sleep_ms"), ("budget = 5\n", "section")):
        file.write_text(text)
        with pytest.raises(Malformed, match=why):
            show("--config", str(file))


def test_no_worker_there_and_no_key_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Disconnected, match="is a worker there"):
        show("--url", "http://127.0.0.1:1")
    with pytest.raises(Malformed, match="write it as"):
        show("--url", "ftp://127.0.0.1")
    key = tmp_path / "key"
    for text in ("", "two words", "\u00e9"):
        key.write_text(text)
        with pytest.raises(Malformed, match="holds no API key"):
            show("--key-file", str(key))
    with pytest.raises(Malformed, match="No such file"):
        show("--key-file", str(tmp_path / "none"))
    for bad in ("new\nline", "two words", "\u00e9"):
        monkeypatch.setenv("HYBRIDGE_API_KEY", bad)
        with pytest.raises(Malformed, match="HYBRIDGE_API_KEY: holds no API key"):
            show("--url", "http://127.0.0.1:1")


def test_a_worker_with_keys_wants_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = runner.invoke(app, ["key", "add", str(tmp_path / "keys"), "me", "--role", "observe"])
    key = made.stdout.split()[0]
    with worker(tmp_path, config='gateway.key_file = "keys"') as one:
        one.ready()
        with pytest.raises(NotTrusted, match="--key-file or HYBRIDGE_API_KEY"):
            show("--url", one.api)
        (tmp_path / "mine").write_text(key + "\n")
        assert show("--url", one.api, "--key-file", str(tmp_path / "mine"))[0] == 0
        monkeypatch.setenv("HYBRIDGE_API_KEY", key)
        assert show("--url", one.api)[0] == 0
