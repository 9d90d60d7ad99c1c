"""`hybridge broker status|sessions|kick` against a broker's real admin socket."""

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cloud.broker.operations.admin import Operable
from cloud.broker.operations.listeners import admin_listening
from cloud.broker.router.router import Router
from cloud.cli.__main__ import main
from tests.cloud.broker.operations.sample import Figures, busy_router, join, overview


@contextmanager
def running(broker: Operable, state_dir: Path) -> Iterator[None]:
    """Serve the socket on a loop of its own: a command has another."""
    state_dir.mkdir(parents=True, exist_ok=True)
    ready, stop = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with admin_listening(broker, state_dir):
            ready.set()
            await stop.wait()

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(10)
        yield
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


class Command:
    """Runs `hybridge broker ...` in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setenv("COLUMNS", "160")

    def __call__(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Give the exit code, stdout and stderr."""
        self._monkeypatch.setattr(sys, "argv", ["hybridge", "broker", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = self._capsys.readouterr()
        code = ended.value.code
        return (code if isinstance(code, int) else 0), said.out, said.err


@pytest.fixture
def hybridge(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(monkeypatch, capsys)


def test_status_is_a_page_for_people(tmp_path: Path, hybridge: Command) -> None:
    with running(overview(busy_router(), store=Figures()), tmp_path):
        code, out, _ = hybridge("status", "--state-dir", tmp_path)
    assert code == 0
    for words in (
        "2 connected, 1 offline", "3 of 10,000 (most so far 3)", "3 messages; ",
        "10 packets, 5 messages, 1,000 bytes", "7 commits of 70 rows, the last in 2.5 ms",
    ):  # fmt: skip
        assert words in out
    assert [line.split()[1:5] for line in out.splitlines() if "queue_full" in line] == [
        ["message", "dropped", "│", "queue_full"]
    ]
    assert "expired" not in out  # it never came


def test_a_store_that_fails_is_loud(tmp_path: Path, hybridge: Command) -> None:
    with running(overview(busy_router(), store=Figures(is_failing=True)), tmp_path):
        assert "FAILING" in hybridge("status", "--state-dir", tmp_path)[1]


def test_status_as_json(tmp_path: Path, hybridge: Command) -> None:
    with running(overview(busy_router()), tmp_path):
        code, out, _ = hybridge("status", "--state-dir", tmp_path, "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["sessions"], found["store"], found["dropped"]["queue_full"]) == (3, None, 2)


def test_sessions_are_rows_and_pages(tmp_path: Path, hybridge: Command) -> None:
    with running(overview(busy_router()), tmp_path):
        _, out, _ = hybridge("sessions", "--state-dir", tmp_path)
        rows = [line for line in out.splitlines() if line.startswith("│")]
        assert "offline, ends in 70 s" in rows[0]
        assert "up 38 s" in rows[1]
        assert all(
            words in rows[2]
            for words in ("anna", "10.0.0.1:0", "1 queued, 1 in flight, ", "queue_full 1")
        )
        _, out, _ = hybridge("sessions", "--state-dir", tmp_path, "--limit", "1")
        assert "There are more: --after away" in out
        _, out, _ = hybridge("sessions", "--state-dir", tmp_path, "--after", "away", "--json")
        found = json.loads(out)
        assert [one["client_id"] for one in found["sessions"]] == ["idle", "reader"]
        assert hybridge("sessions", "--state-dir", tmp_path, "--prefix", "z")[1] == "None.\n"


def test_a_column_that_says_nothing_is_left_out(tmp_path: Path, hybridge: Command) -> None:
    with running(overview(busy_router()), tmp_path):
        _, out, _ = hybridge("sessions", "--state-dir", tmp_path, "--prefix", "idle")
    assert "filters" in out
    assert not [name for name in ("user", "waiting", "dropped") if name in out]


def test_a_client_id_steers_no_terminal(tmp_path: Path, hybridge: Command) -> None:
    router = busy_router()
    join(router, "\x1b[2J[red]x")
    with running(overview(router), tmp_path):
        _, out, _ = hybridge("sessions", "--state-dir", tmp_path)
    assert "\x1b" not in out
    assert r"\x1b[2J[red]x" in out


def test_kick(tmp_path: Path, hybridge: Command) -> None:
    router: Router = busy_router()
    with running(overview(router), tmp_path):
        code, out, _ = hybridge("kick", "reader", "--state-dir", tmp_path)
        assert (code, out) == (0, "reader: closed\n")
        assert router.sessions["reader"].link is None
        _, out, _ = hybridge("kick", "reader", "--state-dir", tmp_path, "--forget")
        assert out == "reader: closed if it was connected, and its session is forgotten\n"
        assert "reader" not in router.sessions
        code, out, err = hybridge("kick", "reader", "--state-dir", tmp_path)
        assert (code, out, err) == (1, "", "error: no session of client 'reader' is here\n")


def test_the_cloud_s_directory_names_its_broker_s_too(
    tmp_path: Path, hybridge: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(overview(busy_router()), tmp_path / "hybridge-cloud" / "broker"):
        assert hybridge("status", "--state-dir", tmp_path / "hybridge-cloud")[0] == 0
        config = tmp_path / "cloud.toml"
        config.write_text('models = [{bundle = "b"}]\n')
        assert hybridge("status", "--config", config)[0] == 0
        config.write_text(
            'models = [{bundle = "b"}]\n[broker]\nstate_dir = "hybridge-cloud/broker"\n'
        )
        assert hybridge("status", "--config", config)[0] == 0
        monkeypatch.chdir(tmp_path)
        assert hybridge("status")[0] == 0


def test_no_broker_is_said_with_what_to_do(
    tmp_path: Path, hybridge: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = hybridge("status")
    assert (code, out) == (1, "")
    assert err.startswith("error: no embedded broker runs with its state in hybridge-cloud and ")
    assert "--state-dir" in err
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "admin.sock"))
    code, _, err = hybridge("status", "--state-dir", tmp_path)
    assert code == 1
    assert err.endswith(
        "admin.sock: nobody listens; the broker was killed. Start it, or remove the file\n"
    )


def test_a_program_that_is_no_broker_is_said(tmp_path: Path, hybridge: Command) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "admin.sock"))
        other.listen()

        def greet() -> None:
            with other.accept()[0] as taken:
                taken.recv(65_536)
                taken.sendall(b"220 ready\r\n")

        answering = threading.Thread(target=greet)
        answering.start()
        code, _, err = hybridge("status", "--state-dir", tmp_path)
        answering.join()
    assert code == 1
    assert "the broker does not answer" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["kick"], ["sessions", "--limit", "0"], ["sessions", "--limit", "1001"], ["nothing"],
        ["status", "--state-dir", "a", "--config", "b"],
    ],
)  # fmt: skip
def test_wrong_usage_is_exit_code_2(arguments: list[str], hybridge: Command) -> None:
    assert hybridge(*arguments)[0] == 2
