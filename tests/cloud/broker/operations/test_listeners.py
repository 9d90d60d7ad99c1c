"""Where the operator's HTTP listens: the socket's file, its mode, its bounds, and taken ports."""

import asyncio
import socket
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from cloud.broker.operations import listeners
from cloud.broker.operations.admin_socket import PATH_BYTES_MAX, socket_path
from cloud.broker.operations.listeners import admin_listening, metrics_listening
from shared.errors import InUse, Malformed
from tests.cloud.broker.operations.sample import busy_router, overview


def listening(state_dir: Path, check: Callable[[Path], Awaitable[None]]) -> None:
    async def run() -> None:
        async with admin_listening(overview(busy_router()), state_dir) as path:
            await check(path)

    asyncio.run(run())


async def nothing(_: Path) -> None:
    pass


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def succeed(path: Path) -> None:
    """Put another socket in its place."""
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))


async def health(path: Path) -> None:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: broker\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()


def test_the_socket_is_its_owner_s_and_goes_with_the_broker(tmp_path: Path) -> None:
    async def check(path: Path) -> None:
        assert path == tmp_path / "admin.sock"
        assert mode(path) == 0o600
        await health(path)

    listening(tmp_path, check)
    assert list(tmp_path.iterdir()) == []


def test_a_socket_that_a_killed_broker_left_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "admin.sock"))
    listening(tmp_path, health)


def test_a_running_broker_keeps_its_socket(tmp_path: Path) -> None:
    async def check(path: Path) -> None:
        with pytest.raises(InUse, match=r"admin\.sock: a broker is running there"):
            async with admin_listening(overview(busy_router()), tmp_path):
                pass
        await health(path)

    listening(tmp_path, check)


def test_a_file_in_the_way_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "admin.sock").write_text("mine")
    with pytest.raises(InUse, match="is no socket"):
        listening(tmp_path, nothing)
    assert (tmp_path / "admin.sock").read_text() == "mine"


def test_a_successor_s_socket_is_not_removed(tmp_path: Path) -> None:
    async def check(path: Path) -> None:
        succeed(path)

    listening(tmp_path, check)
    assert (tmp_path / "admin.sock").is_socket()


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InUse, match=r"cannot listen there \(No such file or directory\)"):
        listening(tmp_path / "missing", nothing)


@pytest.mark.parametrize("letter", ["x", "é"])
def test_a_path_too_long_for_a_socket_is_refused_in_words(letter: str) -> None:
    size = len(letter.encode())
    room = PATH_BYTES_MAX - len("/" + "/admin.sock")
    fits = Path("/" + letter * (room // size))
    assert socket_path(fits) == fits / "admin.sock"
    with pytest.raises(Malformed, match=r"a socket's path has 107 at most"):
        socket_path(Path("/" + letter * (room // size + 1)))


def test_the_longest_path_allowed_is_one_that_works(tmp_path: Path) -> None:
    room = PATH_BYTES_MAX - len(f"{tmp_path}//admin.sock")
    state_dir = tmp_path / ("x" * room)
    state_dir.mkdir()
    assert len(str(socket_path(state_dir))) == PATH_BYTES_MAX
    listening(state_dir, health)


def test_connections_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "CONNECTIONS_MAX", 1)

    async def check(path: Path) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: broker\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        other, other_writer = await asyncio.open_unix_connection(path)
        async with asyncio.timeout(listeners.IDLE_S_MAX / 2):  # after all of it any would be closed
            assert await other.read() == b""
        other_writer.close()
        writer.close()

    listening(tmp_path, check)


def test_a_head_that_never_ends_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "IDLE_S_MAX", 0.05)

    async def check(path: Path) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"GET /healthz HTTP/1.1\r\nHo")
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()

    listening(tmp_path, check)


def test_a_taken_metrics_port_names_its_option() -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(InUse, match=f"127.0.0.1:{port} .*--metrics-port"):
                async with metrics_listening(overview(busy_router()), "127.0.0.1", port):
                    pass

    asyncio.run(run())
