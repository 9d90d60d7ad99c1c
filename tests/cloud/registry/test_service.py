"""The registry as a process: its children, its ends, and what stands both."""

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from cloud.__main__ import main
from cloud.gateway.roles import Role
from tests.cloud.keyed_process import DEADLINE_S, ROOT, until
from tests.cloud.registry.pushing import MODEL, make_model, push, sha256, upload
from tests.cloud.registry.servers import RegistryProcess
from tests.cloud.registry.trust_keys import TrustKeys

QUICK = "latency_runs = 20\nlatency_rounds = 1\nthroughput_s = 0.01\npoll_s = 0.05\n"
NONE = "[evaluation]\nprocesses = 0\n"


def until_ended(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        with os.fdopen(handle):
            ended, _, _ = select.select([handle], [], [], DEADLINE_S)
            assert ended


def evaluator(registry: RegistryProcess) -> int:
    """The process id of the only one, as soon as there is one."""
    until(lambda: b"hybridge_registry_evaluators 1.0" in registry.get("/metrics").body)
    (found,) = registry.children
    return found


def test_what_is_pushed_is_evaluated_by_a_process_of_its_own(tmp_path: Path) -> None:
    settings = f"[evaluation]\nprocesses = 1\n{QUICK}[evaluators]\nbackoff_s_min = 0.01\n"
    with RegistryProcess(tmp_path / "registry", settings) as registry:
        make_model(registry)
        first = evaluator(registry)
        os.kill(first, signal.SIGKILL)
        until_ended(first)
        until(lambda: b"evaluator_ends_total 1.0" in registry.get("/metrics").body)
        second = evaluator(registry)  # it was started again
        push(registry, tmp_path / "one")
        path = f"/v1/models/{MODEL}/versions/1.0.0"
        until(lambda: registry.get(path).json["state"] == "candidate")
        (evaluation,) = registry.get(f"{path}/evaluations").json["evaluations"]
        assert evaluation["state"] == "passed"
        report = registry.get(f"/v1/evaluations/{evaluation['id']}/report.html")
        assert report.headers["content-type"] == "text/html; charset=utf-8"
        assert "sandbox" in report.headers["content-security-policy"]
        assert registry.get(f"/v1/evaluations/{evaluation['id']}/report.json").json
        assert os.getpriority(os.PRIO_PROCESS, second) > os.getpriority(os.PRIO_PROCESS, 0)
        assert registry.stop() == 0
        until_ended(second)


def test_evaluators_end_with_a_registry_that_is_killed(tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "registry") as registry:
        child = evaluator(registry)
        registry.kill()
        until_ended(child)


def test_what_was_answered_stands_a_kill(tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "registry", NONE) as registry:
        make_model(registry)
        pushed = push(registry, tmp_path / "one")
        head = registry.get("/v1/registry").json["head"]
        port = urlsplit(registry.url).port
        registry.kill()
        registry.start()
        assert urlsplit(registry.url).port == port
        assert registry.get("/v1/registry").json["head"] == head
        assert registry.get(f"/v1/models/{MODEL}/versions/1.0.0").json == pushed


def test_a_stop_answers_what_is_in_hand_and_whoever_waits(tmp_path: Path) -> None:
    keys = TrustKeys(tmp_path / "keys")
    with RegistryProcess(tmp_path / "registry", keys.settings + NONE) as registry:
        keys.publish(registry)
        seq = registry.get("/v1/registry").json["head"]["seq"]
        replies = []
        waiting = threading.Thread(
            target=lambda: replies.append(registry.get(f"/v1/log?after={seq}&wait_s=60"))
        )
        waiting.start()
        content = os.urandom(100_000)
        where = urlsplit(registry.url)
        head = (
            f"PATCH /v1/uploads/{sha256(content)} HTTP/1.1\r\nHost: r\r\n"
            f"X-API-Key: {registry.key('trainer')}\r\nUpload-Offset: 0\r\n"
            f"Upload-Length: {len(content)}\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        with socket.create_connection((str(where.hostname), where.port), DEADLINE_S) as sending:
            sending.sendall(head.encode() + content[:50_000])
            until(lambda: b"hybridge_registry_uploads 1.0" in registry.get("/metrics").body)
            assert registry.process is not None
            registry.process.send_signal(signal.SIGTERM)
            waiting.join(DEADLINE_S)  # told before the upload's end
            assert [reply.status for reply in replies] == [200]
            assert replies[0].json["entries"] == []
            sending.sendall(content[50_000:])
            assert sending.recv(65536).startswith(b"HTTP/1.1 204 ")
        assert registry._ended() == 0
        registry.start()
        assert registry.get(f"/v1/artifacts/{sha256(content)}").body == content


def test_a_full_drain_is_cut(tmp_path: Path) -> None:
    settings = "drain_s = 0.3\n" + NONE
    with RegistryProcess(tmp_path / "registry", settings) as registry:
        where = urlsplit(registry.url)
        head = (
            f"PATCH /v1/uploads/{'1' * 64} HTTP/1.1\r\nHost: r\r\n"
            f"X-API-Key: {registry.key('trainer')}\r\nUpload-Offset: 0\r\n"
            "Upload-Length: 9\r\nContent-Length: 9\r\n\r\nabc"
        )
        with socket.create_connection((str(where.hostname), where.port), DEADLINE_S) as sending:
            sending.sendall(head.encode())
            until(lambda: b"hybridge_registry_uploads 1.0" in registry.get("/metrics").body)
            assert registry.stop() == 1
        assert "drain_cut" in registry.log.read_text()


def test_keys_are_read_again(tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "registry", NONE) as registry:
        assert registry.get("/v1/models").status == 200
        keys = registry.folder / "api-keys"
        keys.write_text("# nobody\n")
        assert registry.process is not None
        registry.process.send_signal(signal.SIGHUP)
        until(lambda: registry.get("/v1/models").status == 401)
        assert registry.get("/healthz", role=None).status == 200


def test_it_says_why_it_does_not_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ended = subprocess.run(
            [
                sys.executable, "-m", "cloud", "registry", "--state-dir", str(tmp_path / "state"),
                "--api-port", str(taken.getsockname()[1]),
            ],
            cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
        )  # fmt: skip
    assert ended.returncode == 1
    assert "cannot listen on" in ended.stderr
    (tmp_path / "bad.toml").write_text("[trust]\nonline_keys = 3\n")
    assert main(["registry", "--config", str(tmp_path / "bad.toml")]) == 2
    assert "trust.online_keys" in capsys.readouterr().err


def test_a_name_that_is_not_allowed_goes_nowhere(tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "registry", NONE) as registry:
        assert upload(registry, b"x").status == 204
        assert registry.get("/v1/registry", Role.FETCH).status == 403
        state = registry.state_dir
        assert state.stat().st_mode & 0o077 == 0
