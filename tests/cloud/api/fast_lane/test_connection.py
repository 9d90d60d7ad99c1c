"""Hostile pipelines, over a real socket."""

import json
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cloud.api.servers import DEADLINE_S, Running, head, lanes, server, tensor

_BODY = json.dumps({"inputs": [tensor(3)]}).encode()
_REQUEST = head(close=False)[:-2] + b"Content-Length: %d\r\n\r\n" % len(_BODY) + _BODY
_ANSWERS = 200
_SENT_BYTES_MAX = 16 * 1024**2  # the kernel's buffers of both ends take up to about 10 MiB


@pytest.fixture(scope="module")
def fast(folder: Path) -> Iterator[Running]:
    with server(folder, "fast") as running:
        yield running


def test_a_flood_of_pipelined_requests_waits_in_its_socket(fast: Running) -> None:
    flood, sent, answers = memoryview(_REQUEST * 2000), 0, b""
    with fast.connect() as connection:
        connection.setblocking(False)
        while answers.count(b"HTTP/1.1 200 ") < _ANSWERS:
            ready, room, _ = select.select([connection], [connection], [], DEADLINE_S)
            assert ready or room
            if ready:
                answers += connection.recv(65536)
            if room:
                sent += connection.send(flood[sent % len(_REQUEST) :])
                assert sent < _SENT_BYTES_MAX
        assert b"HTTP/1.1 4" not in answers


def test_pipelined_requests_that_had_to_wait_are_all_answered_in_order(fast: Running) -> None:
    """The last one goes to the other lane, with all that was read ahead."""
    count = 3000
    many = b"".join(
        _REQUEST.replace(b"Host: cloud", b"Host: cloud\r\nX-Request-Id: n%d" % number)
        for number in range(count)
    )
    last = head("/v2/health/live", "X-Request-Id: last", method="GET")
    with fast.connect() as connection:
        answers = _both_ways(connection, many + last)
    names = [
        line.split(b": ")[1] for line in answers.split(b"\r\n") if line.startswith(b"X-Request-Id")
    ]
    assert names == [*(b"n%d" % number for number in range(count)), b"last"]


@lanes
def test_a_head_that_is_too_big_is_refused_on_either_lane(folder: Path, lane: str) -> None:
    with server(folder, lane) as running:
        padded = _REQUEST.replace(b"Host: cloud", b"Host: cloud\r\nX-Pad: " + b"a" * 20_000)
        assert b" 400 Bad Request" in running.raw(padded)[:30]


@lanes
@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_who_asks_to_upgrade_is_answered_and_may_go_on(
    folder: Path, lane: str, protocol: str
) -> None:
    """As `curl --http2` and the HTTP client of Java do with their first request."""
    fields = ("Connection: Upgrade, HTTP2-Settings", f"Upgrade: {protocol}", "HTTP2-Settings: AA")
    asking = head("/v2/health/live", *fields, method="GET", close=False)
    with server(folder, lane) as running, running.connect() as connection:
        connection.sendall(asking)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(_REQUEST)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        connection.sendall(asking.replace(b"GET /v2/health/live", b"CONNECT cloud:443"))
        assert b" 404 Not Found" in connection.recv(65536)


def _both_ways(connection: socket.socket, content: bytes) -> bytes:
    """Send and receive at once, until the server closes."""
    connection.setblocking(False)
    left, answers = memoryview(content), b""
    while True:
        waiting = [connection] if left else []
        ready, room, _ = select.select([connection], waiting, [], DEADLINE_S)
        assert ready or room
        if ready:
            chunk = connection.recv(65536)
            if not chunk:
                return answers
            answers += chunk
        if room:
            left = left[connection.send(left) :]
