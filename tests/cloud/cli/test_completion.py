"""Names for the tab key, as bash asks for them, and a log that is followed."""

import contextlib
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.cli.learning_views import job, loop, run_of
from tests.cloud.cli.own_registry import OwnRegistry, own_registry
from tests.cloud.cli.wire_learning import wire_learning
from tests.cloud.fleet.servers import fleet
from tests.tiny_bundle import write_tiny_bundle

HYBRIDGE = Path(sys.executable).parent / "hybridge"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRegistry]:
    folder = tmp_path_factory.mktemp("registry")
    with own_registry(folder / "made", evaluates=False) as running:
        for number in ("1.0.0", "1.2.0"):
            bundle = write_tiny_bundle(folder / number, version=number)
            running.json("trainer", "model", "push", bundle)
        yield running


def completed(line: str, url: str, key: str = "", **more: str) -> tuple[list[str], str]:
    """What bash would offer after the line, and what was said on stderr."""
    words = line.split(" ")
    done = subprocess.run(
        [HYBRIDGE], capture_output=True, text=True, check=True, timeout=60,
        env=os.environ | {
            "_HYBRIDGE_COMPLETE": "complete_bash", "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1), "HYBRIDGE_REGISTRY": url, "HYBRIDGE_API_KEY": key,
        } | more,
    )  # fmt: skip
    return done.stdout.split(), done.stderr


def test_names_that_are_there(registry: OwnRegistry) -> None:
    key = (registry.keys / "api" / "viewer.key").read_text().strip()
    bundle = registry.folder.parent / "1.2.0"
    for line, names in (
        ("hybridge model get ", ["tiny-edge"]),
        ("hybridge model get z", []),
        ("hybridge model get tiny-edge ", ["1.2.0", "1.0.0"]),
        ("hybridge model diff tiny-edge 1.0.0 1.2", ["1.2.0"]),
        (f"hybridge model push {bundle} --parent ", ["1.2.0", "1.0.0"]),
        ("hybridge data-set push ", []),
    ):
        assert completed(line, registry.url, key) == (names, ""), line


def test_a_fleets_names_with_its_own_key(tmp_path: Path) -> None:
    with fleet(tmp_path) as running:
        body = {"selector": "site=lyon", "priority": 1}
        assert running.call("PUT", "/v1/groups/lyon", body).status == 200
        for key, names in ((running.key("viewer"), ["lyon"]), ("", [])):
            more = {"HYBRIDGE_FLEET": running.url, "HYBRIDGE_FLEET_KEY": key}
            for line in ("hybridge group get l", "hybridge rollout start m 1.0.0 --group l"):
                assert completed(line, "", **more) == (names, "")
        assert completed("hybridge device get ", "", **more) == ([], "")


def test_a_learning_processes_names() -> None:
    with wire_learning() as running:
        running.jobs, running.runs = {"one": job("one")}, {"one": run_of("one")}
        running.loops = {"fashion-edge": loop()}
        more = {"HYBRIDGE_LEARNING": running.url}
        for line, names in (
            ("hybridge train get ", ["one"]),
            ("hybridge train get one b", ["bundle.hyb"]),
            ("hybridge loop show f", ["fashion-edge"]),
        ):
            assert completed(line, "", **more) == (names, ""), line


def test_no_names_and_no_word_where_the_registry_does_not_answer(registry: OwnRegistry) -> None:
    assert completed("hybridge model get ", registry.url) == ([], "")  # without a key
    assert completed("hybridge model get ", "http://127.0.0.1:9") == ([], "")
    assert completed("hybridge model get ", "nonsense") == ([], "")


def test_a_registry_that_drips_holds_no_tab_key() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(ConnectionError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                while not over.wait(0.2):
                    connection.sendall(b" ")

        dripping = threading.Thread(target=drip)
        dripping.start()
        try:
            url = f"http://127.0.0.1:{server.getsockname()[1]}"
            assert completed("hybridge model get ", url) == ([], "")
        finally:
            over.set()
            dripping.join(30)


def test_a_log_is_followed_until_ctrl_c(registry: OwnRegistry, tmp_path: Path) -> None:
    after = registry.entries
    following = subprocess.Popen(
        [
            HYBRIDGE, "registry", "log", "--follow", "--verify", "--after", str(after), "-o", "json",
            *registry.asked("viewer"),
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        registry.json(
            "trainer", "model", "push", write_tiny_bundle(tmp_path / "b", version="1.3.0")
        )
        assert following.stdout is not None
        line = following.stdout.readline()
        assert line, following.communicate()
        entry = json.loads(line)
        assert entry["seq"] > after
        following.send_signal(signal.SIGINT)
        _, err = following.communicate(timeout=30)
        assert (following.returncode, err) == (130, "error: stopped\n")
    finally:
        following.kill()
        following.communicate()


def test_a_log_that_was_altered_does_not_verify(registry: OwnRegistry) -> None:
    verify = ("registry", "log", "--verify", "--limit", "1")
    assert registry.run("viewer", *verify).code == 0
    with sqlite3.connect(registry.folder / "state" / "catalog.db") as database:
        triggers = database.execute("select name from sqlite_master where type = 'trigger'")
        for (name,) in triggers.fetchall():  # the catalog's own guard
            database.execute(f"drop trigger {name}")
        database.execute("update registry_log set actor = 'somebody else' where seq = 2")
    database.close()
    said = registry.run("viewer", *verify)
    assert said.code == 1
    assert "log entry 2 was altered" in said.err
