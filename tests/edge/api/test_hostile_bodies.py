"""Bodies that lie, never end, or are far too big: refused soon, in little memory."""

import asyncio
import gzip
import tracemalloc

import pytest

from edge.api.settings import Limits
from tests.edge.api.running import head, running

INFER = "/v2/models/tiny-edge/infer"
SMALL = Limits(body_bytes_max=1024, linger_s_max=0.05)
HASTY = Limits(body_s_max=0.05, idle_s_max=0.05, linger_s_max=0.05)


def raw(*parts: bytes, limits: Limits = SMALL) -> bytes:
    """What comes back until the server closes; our side stays open."""

    async def scenario() -> bytes:
        async with running(limits=limits) as server, asyncio.timeout(4):
            return await server.raw(*parts)

    return asyncio.run(scenario())


def test_a_gigabyte_is_refused_before_it_is_sent() -> None:
    answer = raw(head(INFER, "Content-Length: 1073741824", keep_alive=True))
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"at most 1024 bytes" in answer
    assert b"Connection: close" in answer


def test_a_client_that_asks_first_is_told_before_it_sends() -> None:
    answer = raw(head(INFER, "Content-Length: 1073741824", "Expect: 100-continue"))
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_client_that_asks_first_may_go_on() -> None:
    answer = raw(head(INFER, "Content-Length: 2", "Expect: 100-continue"), b"{}")
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 ")
    assert b"inputs is missing" in answer


def test_another_expectation_is_refused() -> None:
    answer = raw(head(INFER, "Content-Length: 2", "Expect: tea"), b"{}")
    assert answer.startswith(b"HTTP/1.1 417 ")


def test_chunks_without_end_are_cut_off_at_the_bound() -> None:
    chunk = b"400\r\n" + b" " * 1024 + b"\r\n"
    answer = raw(head(INFER, "Transfer-Encoding: chunked"), chunk, chunk)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_flood_of_chunks_is_not_held_in_memory() -> None:
    chunk = b"100000\r\n" + b" " * 2**20 + b"\r\n"

    async def scenario() -> tuple[bytes, int]:
        async with running(limits=Limits(linger_s_max=0.05)) as server, asyncio.timeout(10):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            tracemalloc.start()
            try:
                writer.write(head(INFER, "Transfer-Encoding: chunked"))
                for _ in range(200):
                    writer.write(chunk)
                    await writer.drain()
            except ConnectionError:
                pass  # the server hung up, as it should
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            try:
                answer = await reader.read(200)
            except ConnectionError:
                answer = b""
            writer.close()
            return answer, peak

    answer, peak = asyncio.run(scenario())
    assert answer[:12] in (b"HTTP/1.1 413", b"")
    assert peak < 64 * 2**20  # of 200 MiB sent; our own sending buffers are in it


def test_a_small_body_that_unpacks_to_a_big_one_is_cut_off() -> None:
    bomb = gzip.compress(b" " * 2**22)
    answer = raw(head(INFER, f"Content-Length: {len(bomb)}", "Content-Encoding: gzip"), bomb)
    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_that_is_not_what_its_encoding_says(encoding: str) -> None:
    answer = raw(head(INFER, "Content-Length: 9", f"Content-Encoding: {encoding}"), b"not that!")
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_a_body_that_stops_half_way_is_given_up() -> None:
    answer = raw(head(INFER, "Content-Length: 100"), b'{"inputs"', limits=HASTY)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"9 bytes of the body came within 0.05 s" in answer


def test_a_sender_that_hangs_up_half_way_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        async with running() as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(head(INFER, "Content-Length: 100") + b"{")
            await writer.drain()
            writer.close()
            async with server.http.get("/v2/health/live") as response:
                assert response.status == 200
            assert not server.agent.samples

    asyncio.run(scenario())


def test_a_head_that_never_ends_is_given_up() -> None:
    assert raw(b"POST /v2/models/tiny-edge/infer HTTP/1.1\r\nHost: ", limits=HASTY) == b""


def test_a_connection_that_says_nothing_is_closed() -> None:
    assert raw(b"", limits=HASTY) == b""


def test_garbage_is_a_400() -> None:
    assert raw(b"\x16\x03\x01 hello\r\n\r\n").startswith(b"HTTP/1.0 400 ")


@pytest.mark.parametrize("length", ["-1", "1e9", "99999999999999999999", "12; 5"])
def test_a_content_length_that_is_none(length: str) -> None:
    answer = raw(head(INFER, f"Content-Length: {length}"), b"{}")
    assert answer[:12] in (b"HTTP/1.0 400", b"HTTP/1.1 400", b"HTTP/1.1 413")


@pytest.mark.parametrize("length", ["-1", "1000", "one", "", "0"])
def test_a_json_length_that_lies(length: str) -> None:
    answer = raw(
        head(INFER, "Content-Length: 2", f"Inference-Header-Content-Length: {length}"),
        b"{}",
    )
    assert answer.startswith(b"HTTP/1.1 400 ")


def test_connections_beyond_the_bound_are_told_so() -> None:
    async def scenario() -> None:
        limits = Limits(connections_max=2)
        async with running(limits=limits) as server, asyncio.timeout(10):
            held = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
            for _, writer in held:  # a round trip each, so that both are known to be open
                writer.write(b"GET /v2/health/live HTTP/1.1\r\nHost: edge\r\n\r\n")
            for reader, _ in held:
                assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
            answer = await server.raw(b"")
            assert answer.startswith(b"HTTP/1.1 503 ")
            start, _, document = answer.partition(b"\r\n\r\n")
            assert f"Content-Length: {len(document)}".encode() in start
            for _, writer in held:
                writer.close()

    asyncio.run(scenario())


def test_refusals_are_counted_and_logged_once_for_each_kind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> str:
        async with running(limits=SMALL) as server, asyncio.timeout(10):
            for _ in range(3):
                await server.raw(head(INFER, "Content-Length: 2"), b"[]")
                await server.raw(head(INFER, "Content-Length: 1073741824"))
                await server.raw(b"\x16\x03\x01 hello\r\n\r\n")
            async with server.http.get("/metrics") as response:
                return await response.text()

    text = asyncio.run(scenario())
    for event in ("http_400", "http_413", "http_unreadable"):
        assert f'events_total{{event="{event}"}} 3' in text
    lines = [(r.message, vars(r).get("status")) for r in caplog.records]
    assert sorted(lines, key=str) == [
        ("http_unreadable", None),
        ("request_refused", 400),
        ("request_refused", 413),
    ]
