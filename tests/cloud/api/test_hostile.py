"""Bodies and connections that lie, never end, or are far too many: refused soon, in little memory."""

import gzip
import json
import resource
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import zstandard

from cloud.api.settings import Api, CallLimits
from tests.cloud.api.servers import (
    DEADLINE_S,
    INFER,
    LANES,
    MODEL,
    Running,
    head,
    lanes,
    server,
    tensor,
    until,
    until_closed,
)

GOOD = json.dumps({"inputs": [tensor(3)]}).encode()
SMALL = Api(body_bytes_max=1024, linger_s_max=0.05)
HASTY = Api(body_s_max=0.05, head_s_max=0.05, idle_s_max=0.2, linger_s_max=0.05, stall_s_max=0.1)


@pytest.fixture(scope="module", params=LANES)
def small(request: pytest.FixtureRequest, folder: Path) -> Iterator[Running]:
    with server(folder, request.param, SMALL) as running:
        yield running


@pytest.fixture(scope="module", params=LANES)
def hasty(request: pytest.FixtureRequest, folder: Path) -> Iterator[Running]:
    with server(folder, request.param, HASTY) as running:
        yield running


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"{}", b'{"inputs": 1}', b'{"inputs": [1]}', b"\xff", b'{"a": NaN}'],
)  # fmt: skip
def test_malformed_json(running: Running, body: bytes) -> None:
    answer = running.call("POST", INFER, body)
    assert (answer.status, answer.kind) == (400, "application/problem+json")
    assert answer.json["type"] == "urn:hybridge:problem:malformed"


@lanes
def test_slow_bodies_make_room_for_who_comes(folder: Path, lane: str) -> None:
    """They take no work, so however many there are, nobody is turned away for them."""
    few = Api(connections_max=3, idle_grace_s=0)
    slow = head(INFER, "Transfer-Encoding: chunked", "Expect: 100-continue", close=False)
    with server(folder, lane, few) as running, ExitStack() as open_ones:
        several = [open_ones.enter_context(running.connect()) for _ in range(3)]
        for connection in several:
            connection.sendall(slow)
            assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")  # its body is waited for
            connection.sendall(b"1\r\n{\r\n")
        assert running.infer({"inputs": [tensor(3)]}).status == 200
        told = until_closed(several[0])
        assert told.startswith(b"HTTP/1.1 503 ")
        assert b"too-many-connections" in told


@lanes
def test_a_body_in_pieces_has_the_time_of_bodies_and_not_that_of_heads(
    folder: Path, lane: str
) -> None:
    few = Api(head_s_max=0.05, body_s_max=0.3)
    slow = head(INFER, "Transfer-Encoding: chunked", "Expect: 100-continue", close=False)
    with server(folder, lane, few) as running, running.connect() as connection:
        connection.sendall(slow)
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"1\r\n{\r\n")
        assert b"slow-body" in until_closed(connection)


@lanes
def test_big_json_of_many_clients_is_read_one_after_the_other(folder: Path, lane: str) -> None:
    """Threads that parse at once only keep each other, and the event loop, from running."""
    big = json.dumps({"inputs": [tensor(3)], "parameters": {"note": "x" * 9000}}).encode()

    def readers() -> int:
        return sum(thread.name.startswith("read-call") for thread in threading.enumerate())

    before = readers()
    with server(folder, lane) as running, ThreadPoolExecutor(8) as clients:
        answers = [clients.submit(running.call, "POST", INFER, big) for _ in range(16)]
        assert {answer.result().status for answer in answers} == {200}
        assert readers() == before + 1


def test_what_is_not_here(running: Running) -> None:
    for path in (
        "/v2/models/none/infer", f"/v2/models/{MODEL}/versions/9.9.9/infer",
        f"/v2/models/{MODEL}%00/infer", "/v2/models/%2e%2e/infer", "/v2/models/" + "x" * 3000 + "/infer",
    ):  # fmt: skip
        answer = running.call("POST", path, GOOD)
        assert (answer.status, answer.kind) == (404, "application/problem+json")
        assert len(answer.body) < 2000


def test_a_gigabyte_is_refused_before_it_is_sent(small: Running) -> None:
    answer = small.raw(head(INFER, "Content-Length: 1073741824", close=False))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"at most 1024 bytes" in answer
    assert b"Connection: close" in answer


def test_a_client_that_asks_first_is_told_before_it_sends(small: Running) -> None:
    expect = "Expect: 100-continue"
    assert small.raw(head(INFER, "Content-Length: 9999", expect)).startswith(b"HTTP/1.1 413 ")
    missing = head("/v2/models/none/infer", f"Content-Length: {len(GOOD)}", expect)
    assert small.raw(missing).startswith(b"HTTP/1.1 404 ")


def test_a_client_that_asks_first_may_go_on(small: Running) -> None:
    answer = small.raw(head(INFER, f"Content-Length: {len(GOOD)}", "Expect: 100-continue"), GOOD)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ")


def test_another_expectation_is_refused(small: Running) -> None:
    answer = small.raw(head(INFER, "Content-Length: 2", "Expect: tea"), b"{}")
    assert answer.startswith(b"HTTP/1.1 417 ")


def test_chunks_that_fit_are_taken(small: Running) -> None:
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (GOOD[:50], GOOD[50:]))
    answer = small.raw(head(INFER, "Transfer-Encoding: chunked"), chunks + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_chunks_without_end_are_cut_off_at_the_bound(small: Running) -> None:
    chunk = b"400\r\n" + b" " * 1024 + b"\r\n"
    answer = small.raw(head(INFER, "Transfer-Encoding: chunked"), chunk, chunk)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_flood_of_chunks_is_not_held_in_memory(folder: Path) -> None:
    chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"
    limits = Api(body_bytes_max=2**20, linger_s_max=0.05)
    with server(folder, settings=limits) as running, running.connect() as connection:
        tracemalloc.start()
        try:
            connection.sendall(head(INFER, "Transfer-Encoding: chunked"))
            for _ in range(100):
                connection.sendall(chunk)
        except ConnectionError:
            pass  # the server hung up, as it should
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 8 * 2**20  # of 100 MiB sent


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_bomb_is_refused(running: Running, encoding: str) -> None:
    pack = {"gzip": gzip.compress, "deflate": zlib.compress, "zstd": zstandard.compress}[encoding]
    answer = running.call("POST", INFER, pack(b" " * (16 * 2**20 + 1)), Content_Encoding=encoding)
    assert (answer.status, "when unpacked" in answer.json["detail"]) == (413, True)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_body_that_is_not_what_its_encoding_says(running: Running, encoding: str) -> None:
    for body in (b"not that!", gzip.compress(GOOD)[:-4], zlib.compress(GOOD) + b"more"):
        answer = running.call("POST", INFER, body, Content_Encoding=encoding)
        assert answer.status == 400


def test_an_encoding_that_is_not_read_here(running: Running) -> None:
    answer = running.call("POST", INFER, GOOD, Content_Encoding="br")
    assert (answer.status, answer.headers["accept-encoding"]) == (415, "gzip, deflate, zstd")


def test_answers_are_packed_only_where_it_pays(running: Running) -> None:
    many = json.dumps({"inputs": [tensor(*range(250))]})  # the fast lane never packs: not for it
    for encoding in ("zstd", "gzip", "deflate"):
        answer = running.call("POST", INFER, many, Accept_Encoding=encoding)
        assert (answer.headers["content-encoding"], answer.headers["vary"]) == (
            encoding, "Accept-Encoding",
        )  # fmt: skip
        assert (
            "content-encoding"
            not in running.call("POST", INFER, GOOD, Accept_Encoding=encoding).headers
        )
    answer = running.call("POST", INFER, many, Accept_Encoding="br")
    assert "content-encoding" not in answer.headers
    assert answer.headers["vary"] == "Accept-Encoding"


def test_a_content_length_that_says_less_leaves_garbage_behind(running: Running) -> None:
    request = head(INFER, f"Content-Length: {len(GOOD)}", close=False) + GOOD
    together = running.raw(request + b"garbage\r\n\r\n")
    assert b" 400 Bad Request" in together
    with running.connect() as connection:
        connection.sendall(request)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        connection.sendall(b"garbage\r\n\r\n")
        assert b" 400 Bad Request" in until_closed(connection)


def test_a_body_that_stops_half_way_is_given_up(hasty: Running) -> None:
    answer = hasty.raw(head(INFER, "Content-Length: 100"), b'{"inputs"')
    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_body_that_drips_is_given_up(hasty: Running) -> None:
    with hasty.connect() as connection:
        connection.sendall(head(INFER, "Content-Length: 100000"))
        connection.settimeout(0.005)
        began, answer = time.monotonic(), b""
        while not answer and time.monotonic() - began < DEADLINE_S:
            connection.sendall(b" ")
            try:
                answer = connection.recv(12)
            except TimeoutError:
                continue
    assert answer == b"HTTP/1.1 408"


def test_a_sender_that_hangs_up_half_way_leaves_nothing_behind(running: Running) -> None:
    with running.connect() as connection:
        connection.sendall(head(INFER, "Content-Length: 100") + b"{")
    assert running.get("/v2/health/live").status == 200


@pytest.mark.parametrize("begun", [b"P", b"POST /v2/models/tiny-cloud/infer HTTP/1.1\r\nHost: "])
def test_a_head_that_never_ends_is_given_up(hasty: Running, begun: bytes) -> None:
    assert hasty.raw(begun).startswith(b"HTTP/1.1 408 ")


def test_a_head_that_drips_is_given_up(folder: Path) -> None:
    with server(folder, settings=HASTY) as running:
        with running.connect() as connection:
            connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: cloud\r\nX: ")
            connection.settimeout(0.005)
            began, answer = time.monotonic(), b""
            while not answer and time.monotonic() - began < DEADLINE_S:
                connection.sendall(b"y")
                try:
                    answer = connection.recv(12)
                except TimeoutError:
                    continue
        assert answer == b"HTTP/1.1 408"
        assert running.counted('hybridge_http_connections_cut_total{reason="slow_head"}') == 1


def test_a_connection_that_says_nothing_is_closed(hasty: Running) -> None:
    assert hasty.raw() == b""


def test_a_connection_that_is_idle_after_its_answer_is_closed(hasty: Running) -> None:
    answer = hasty.raw(head("/v2/health/live", method="GET", close=False))
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_a_head_that_is_too_long_is_refused(running: Running) -> None:
    answer = running.raw(head(INFER, "X-Long: " + "x" * 20_000))
    assert answer[:12] in (b"HTTP/1.0 400", b"HTTP/1.1 400", b"HTTP/1.1 431")
    assert b"application/problem+json" in answer


def test_garbage_is_a_problem(running: Running) -> None:
    answer = running.raw(b"\x16\x03\x01 hello\r\n\r\n")
    assert answer.startswith(b"HTTP/1.0 400 ")
    assert b"application/problem+json" in answer


@pytest.mark.parametrize("length", ["-1", "1e9", "99999999999999999999", "12; 5", "5, 5", ""])
def test_a_content_length_that_is_none(small: Running, length: str) -> None:
    answer = small.raw(head(INFER, f"Content-Length: {length}"), GOOD)
    assert answer[:12] in (b"HTTP/1.0 400", b"HTTP/1.1 400", b"HTTP/1.1 413")


def test_two_lengths_are_one_too_many(running: Running) -> None:
    """What two parsers read differently is how requests are smuggled (RFC 9112, section 6.3)."""
    both = ("Content-Length: 4", "Transfer-Encoding: chunked")
    answer = running.raw(head(INFER, *both), b"0\r\n\r\nGET /v1/status HTTP/1.1\r\n\r\n")
    assert answer[:12] in (b"HTTP/1.0 400", b"HTTP/1.1 400")
    twice = head(INFER, f"Content-Length: {len(GOOD)}", "Content-Length: 5")
    assert running.raw(twice, GOOD)[:12] in (b"HTTP/1.0 400", b"HTTP/1.1 400")


@pytest.mark.parametrize("length", ["-1", "1000", "one", "", "0", "1" * 100])
def test_a_json_length_that_lies(running: Running, length: str) -> None:
    answer = running.call("POST", INFER, GOOD, Inference_Header_Content_Length=length)
    assert answer.status == 400


@lanes
def test_a_reader_that_takes_nothing_is_cut_off(folder: Path, lane: str) -> None:
    """Its answers fill the socket's buffers and then the server's, no further."""
    settings = HASTY.model_copy(update={"idle_s_max": 60.0, "calls": CallLimits(rows_max=256)})
    call = json.dumps({"inputs": [tensor(*range(256))]}).encode()
    request = head(INFER, f"Content-Length: {len(call)}", close=False) + call
    with server(folder, lane, settings) as running:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with connection:
            connection.settimeout(DEADLINE_S)
            connection.connect((running.host, running.port))
            with pytest.raises(ConnectionError):
                while True:
                    connection.sendall(request)
        assert running.counted('hybridge_http_connections_cut_total{reason="stalled_reader"}') == 1


@lanes
def test_connections_beyond_the_bound_are_told_so(folder: Path, lane: str) -> None:
    settings = Api(connections_max=2, idle_grace_s=60)
    live = head("/v2/health/live", method="GET", close=False)
    with server(folder, lane, settings) as running, ExitStack() as held:
        for _ in range(2):  # a round trip each, so that both are known to be open
            connection = held.enter_context(running.connect())
            connection.sendall(live)
            assert connection.recv(12) == b"HTTP/1.1 200"
        answer = running.raw()
        assert answer.startswith(b"HTTP/1.1 503 ")
        start, _, document = answer.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(document)}".encode() in start
        assert json.loads(document)["type"] == "urn:hybridge:problem:too-many-connections"


@lanes
def test_who_is_idle_goes_for_who_works(folder: Path, lane: str) -> None:
    """The first of three has been idle the longest; the newcomer takes its place."""
    settings = Api(connections_max=3, idle_grace_s=0)
    with server(folder, lane, settings) as running, ExitStack() as held:
        idle = [held.enter_context(running.connect()) for _ in range(3)]
        live = head("/v2/health/live", method="GET", close=False)
        for connection in idle:
            connection.sendall(live)
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert running.call("POST", INFER, GOOD).status == 200
        assert b"HTTP/1.1 503" not in until_closed(idle[0])
        idle[2].sendall(live)
        assert running.counted('hybridge_http_connections_cut_total{reason="idle_for_room"}') >= 1


@lanes
def test_ten_thousand_idle_connections(folder: Path, lane: str) -> None:
    """As many as this process may open: the server keeps its bound, tells the rest, and answers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(10_000, hard - 1500)
    try:
        with server(folder, lane, Api(connections_max=200)) as running, ExitStack() as held:
            connections = [held.enter_context(running.connect()) for _ in range(count)]
            assert len(connections) == count
            assert len(running.api.connections) <= 200
            began = time.monotonic()
            while running.call("GET", "/v2/health/live").status != 200:  # a place is free in 1 s
                assert time.monotonic() - began < 5
            refused = running.counted('hybridge_http_connections_cut_total{reason="no_room"}')
            gone = running.counted('hybridge_http_connections_cut_total{reason="idle_for_room"}')
            assert refused + gone >= count - 200
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_big_bodies_of_many_share_their_room(folder: Path) -> None:
    """Behind aiohttp; each is within its own bound, sent but for its end."""
    settings = Api(body_bytes_max=2**20, bodies_bytes_max=2**21)
    big = head(INFER, f"Content-Length: {2**20}") + b" " * (2**20 - 1)
    with server(folder, settings=settings) as running:
        room = running.api.room
        with ExitStack() as held:
            for number in (1, 2):
                held.enter_context(running.connect()).sendall(big)
                until(running, lambda number=number: room.taken_bytes == number * (2**20 - 1))
            third = running.call("POST", INFER, GOOD)
            assert (third.status, third.headers["retry-after"]) == (429, "1")
        until(running, lambda: room.taken_bytes == 0)
        assert running.call("POST", INFER, GOOD).status == 200


def test_what_is_refused_slows_nothing_else(folder: Path) -> None:
    """Slow heads and slow bodies hold places, not the event loop."""
    with server(folder) as running, ExitStack() as held:
        for _ in range(50):
            held.enter_context(running.connect()).sendall(b"POST /v2/mod")
            body = held.enter_context(running.connect())
            body.sendall(head(INFER, "Content-Length: 1000") + b"{")
        began = time.monotonic()
        for _ in range(20):
            assert running.call("POST", INFER, GOOD).status == 200
        assert time.monotonic() - began < 2
