"""`python -m cloud serve` as a real process, over real brokers."""

import asyncio
import gc
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from cloud.__main__ import main
from cloud.config import parse
from cloud.service import Service
from cloud.store.feedback import Bounds, FeedbackTable
from shared.wire.envelope import CloudAnswer, Payload, Refusal
from tests.brokers import BROKER_KINDS, BrokerKind, running_broker
from tests.cloud.samples import escalation
from tests.cloud.workers import ROOT, Device, Worker, cloud_bundle, worker
from tests.tiny_bundle import write_tiny_bundle


@pytest.fixture
def locked_store(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database that another process has locked, until the test rolls back."""
    (tmp_path / "state").mkdir()
    path = tmp_path / "state" / "feedback.db"
    table = FeedbackTable(f"sqlite:///{path}", Bounds(10_000, 10**9))
    table.open()
    table.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as blocker:
        blocker.execute("BEGIN IMMEDIATE")
        yield blocker


def rows(state_dir: Path) -> int:
    with closing(sqlite3.connect(state_dir / "feedback.db")) as database:
        return int(database.execute("SELECT count(*) FROM feedback").fetchone()[0])


@pytest.mark.parametrize("kind", BROKER_KINDS)
def test_it_answers_refuses_counts_stores_and_leaves_in_good_order(
    tmp_path: Path, kind: BrokerKind
) -> None:
    with worker(tmp_path, config=f'broker.kind = "{kind}"') as one:
        one.ready()
        assert one.get("/v2/health/ready")[0] == 200
        device = Device(one.address)
        good = device.send_image(1)
        reply = device.receive()
        assert isinstance(reply, CloudAnswer)
        assert (reply.id, reply.model_version) == (good.id, "1.0.0")
        assert reply.probabilities.argmax() == 2  # this model answers (label - 1) % 3
        device.send(good)
        again = device.receive()
        assert isinstance(again, CloudAnswer)
        assert np.array_equal(again.probabilities, reply.probabilities)
        device.raw(b"this is no escalation")
        device.send(escalation(model="nobody"))
        device.send(escalation(payload=Payload("raw", "uint8", (3, 3), bytes(9))))
        codes = [r.code for r in (device.receive(), device.receive()) if isinstance(r, Refusal)]
        assert codes == ["unknown_model", "malformed"]
        device.close()
        status = json.loads(one.get("/v1/status")[1])
        assert [m["answers_for"] for m in status["models"]] == [["tiny-edge"]]
        assert one.count("received_total") == 5
        while one.count("answered_total") == 0:
            pass  # counted once stored
        assert one.count("answered_total") == 1
        assert one.count("duplicates_total") == 1
        assert one.count('malformed_total{kind="envelope"}') == 1
        assert one.count('refused_total{code="unknown_model"}') == 1
        assert one.terminate() == 0
        assert rows(one.state_dir) == 1


@pytest.mark.parametrize("kind", BROKER_KINDS)
def test_kill_9_of_one_of_two_workers_loses_nothing(tmp_path: Path, kind: BrokerKind) -> None:
    with running_broker(kind, tmp_path / "broker") as address:
        url = f"mqtt://{address.host}:{address.port}"
        with (
            worker(tmp_path, "--broker", url, "--name", "a") as first,
            worker(tmp_path, "--broker", url, "--name", "b") as second,
        ):
            first.ready()
            second.ready()
            device = Device(address)
            for number in range(150):
                device.send_image(number)
            for _ in range(20):
                device.receive()
            first.kill()
            device.send_again()
            device.receive_all()
            assert all(isinstance(reply, CloudAnswer) for reply in device.replies.values())
            assert len(device.replies) == 150
            device.close()
            assert second.terminate() == 0
        if (
            kind == "embedded"
        ):  # Mosquitto drops what a dead member held: answered, perhaps not stored
            assert rows(tmp_path / "state") == 150


def test_sigterm_finishes_what_was_accepted_and_leaves_the_rest(tmp_path: Path) -> None:
    with running_broker("embedded", tmp_path) as address:
        url = f"mqtt://{address.host}:{address.port}"
        device = Device(address)
        with worker(tmp_path, "--broker", url) as one:
            one.ready()
            for number in range(150):
                device.send_image(number)
            device.receive()
            assert one.terminate() == 0
        device.send_image(0)
        with worker(tmp_path, "--broker", url) as another:
            another.ready()
            device.send_again()
            device.receive_all()
            assert len(device.replies) == 151
            device.close()
            assert another.terminate() == 0
    assert rows(tmp_path / "state") == 151


def test_it_waits_for_the_store_on_sigterm(
    tmp_path: Path, locked_store: sqlite3.Connection
) -> None:
    with worker(tmp_path) as one:
        one.ready()
        device = Device(one.address)
        device.send_image(1)
        device.receive()  # answers do not wait for the store
        one.process.terminate()
        while one.get("/v2/health/ready")[0] == 200:
            pass
        assert one.process.poll() is None
        locked_store.execute("ROLLBACK")
        assert one.exit_code() == 0
    assert rows(one.state_dir) == 1
    device.close()


def test_a_second_sigterm_ends_it_at_once(tmp_path: Path, locked_store: sqlite3.Connection) -> None:
    assert locked_store.in_transaction
    with worker(tmp_path) as one:
        one.ready()
        device = Device(one.address)
        device.send_image(1)
        device.receive()
        one.process.terminate()
        while one.get("/v2/health/ready")[0] == 200:
            pass
        assert "shutting down" in one.get("/v2/health/ready")[1]
        one.process.terminate()
        assert one.exit_code() == 128 + signal.SIGTERM
        device.close()


def test_a_drain_that_takes_too_long_is_cut(
    tmp_path: Path, locked_store: sqlite3.Connection
) -> None:
    assert locked_store.in_transaction
    with worker(tmp_path, config="drain_s = 0.2") as one:
        one.ready()
        device = Device(one.address)
        device.send_image(1)
        device.receive()
        assert one.terminate() == 1
        assert "drain_cut" in one.log.read_text()
        device.close()


def test_it_ends_when_its_broker_dies(tmp_path: Path) -> None:
    with worker(tmp_path) as one:
        one.ready()
        started = next(
            line for line in one.log.read_text().splitlines() if "broker_started" in line
        )
        os.kill(json.loads(started)["pid"], signal.SIGKILL)
        assert one.exit_code() == 1
        assert '"part_died"' in one.log.read_text()


def test_it_is_not_ready_while_a_broker_elsewhere_is_away_and_ready_when_it_is_back(
    tmp_path: Path,
) -> None:
    with running_broker("embedded", tmp_path) as address:
        port, url = address.port, f"mqtt://{address.host}:{address.port}"
        one = Worker(tmp_path, "--broker", url).ready()
    try:
        while one.get("/v2/health/ready")[0] == 200:
            pass
        assert "not connected" in one.get("/v2/health/ready")[1]
        with running_broker("embedded", tmp_path, port=port) as address:
            while one.get("/v2/health/ready")[0] != 200:
                pass
            device = Device(address)
            device.send_image(1)
            assert isinstance(device.receive(), CloudAnswer)
            device.close()
            assert one.terminate() == 0
    finally:
        one.kill()
        assert one.process.stdout is not None
        one.process.stdout.close()


def test_what_is_here_at_the_start_is_never_looked_at_as_garbage(tmp_path: Path) -> None:
    frozen = list[int]()

    def ready(_api: str, _broker: str) -> None:
        frozen.append(gc.get_freeze_count())
        service.stop()

    bundle = write_tiny_bundle(tmp_path / "bundle", escalates=False)
    tree = {
        "state_dir": str(tmp_path / "state"), "notice_s": 0,
        "models": [{"bundle": str(bundle), "engine": "onnxruntime"}],
        "broker": {"kind": "embedded", "port": 0},
    }  # fmt: skip
    service = Service(parse(tree, "test"), ready)
    try:
        assert asyncio.run(service.run())
    finally:
        gc.unfreeze()
    assert frozen[0] > 10_000


def test_settings_that_do_not_fit_end_it_with_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--broker", "carrier-pigeon"]) == 2
    assert "broker.kind" in capsys.readouterr().err
    assert main(["serve"]) == 2
    assert "models: name one bundle at least" in capsys.readouterr().err


def test_a_bundle_that_was_tampered_with_ends_it_with_words(tmp_path: Path) -> None:
    bundle = cloud_bundle(tmp_path)
    (bundle / "variants" / "model.onnx").write_bytes(b"tampered")
    ended = subprocess.run(
        [sys.executable, "-m", "cloud", "serve", "--bundle", str(bundle),
         "--state-dir", str(tmp_path / "state")],
        cwd=ROOT, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (ended.returncode, "model.onnx" in ended.stderr) == (1, True)
    assert "Traceback" not in ended.stderr
