import asyncio
import socket
from collections.abc import Callable, Coroutine

import pytest

from cloud.registry.client.connection import Connection, checked_url, quoted
from cloud.registry.client.settings import ClientSettings
from shared.errors import (
    Conflict,
    Disconnected,
    Malformed,
    Overloaded,
    ReadOnly,
    Refused,
    TooLarge,
    Unknown,
)
from tests.cloud.registry.client.scripted_server import (
    CUT,
    SILENT,
    ok,
    problem,
    response,
    scripted,
)

QUICK = ClientSettings(patience_s=5.0, pause_s_min=0.001, pause_s_max=0.002, silence_s_max=5.0)
HASTY = QUICK.model_copy(update={"patience_s": 0.01})
KEY = "hy_0123456789_secret"


def run(work: Callable[[], Coroutine[object, object, None]]) -> None:
    asyncio.run(work())


def closed_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_a_get_that_was_cut_is_asked_again() -> None:
    async def work() -> None:
        async with (
            scripted(CUT, CUT, ok({"a": 1})) as server,
            Connection([server.url], KEY, QUICK) as connection,
        ):
            assert await connection.json("GET", "/v1/models", query={"x": None, "n": 2}) == {"a": 1}
        assert [path for _, path, _ in server.asked] == ["/v1/models?n=2"] * 3
        assert server.asked[0][2]["x-api-key"] == KEY

    run(work)


def test_a_post_that_was_cut_is_not_done_twice() -> None:
    async def work() -> None:
        async with (
            scripted(CUT, ok({})) as server,
            Connection([server.url], None, QUICK) as connection,
        ):
            with pytest.raises(Disconnected, match="may have been done before"):
                await connection.json("POST", "/v1/x", document={})
        assert len(server.asked) == 1

    run(work)


def test_a_post_that_reached_nobody_is_done_again() -> None:
    async def work() -> None:
        async with (
            scripted(ok({"done": True})) as server,
            Connection([closed_port(), server.url], None, QUICK) as connection,
        ):
            assert await connection.json("POST", "/v1/x", document={}) == {"done": True}
        assert len(server.asked) == 1

    run(work)


def test_a_post_that_met_silence_is_not_done_by_another() -> None:
    async def work() -> None:
        hasty = QUICK.model_copy(update={"silence_s_max": 0.05})
        async with (
            scripted(SILENT) as silent,
            scripted(ok({})) as other,
            Connection([silent.url, other.url], None, hasty) as connection,
        ):
            with pytest.raises(
                Disconnected, match=r"does not answer .* may have been done"
            ) as lost:
                await connection.json("POST", "/v1/x", document={})
            assert "cannot be reached" not in str(lost.value)
        assert (len(silent.asked), len(other.asked)) == (1, 0)

    run(work)


def test_patience_ends() -> None:
    async def work() -> None:
        url = closed_port()
        async with Connection([url], None, HASTY) as connection:
            with pytest.raises(Disconnected, match="cannot be reached") as refused:
                await connection.json("GET", "/v1/models")
        assert url in str(refused.value)

    run(work)


def test_a_url_that_failed_is_asked_after_the_others() -> None:
    async def work() -> None:
        async with (
            scripted(CUT) as away,
            scripted(ok({})) as here,
            Connection([away.url, here.url], None, QUICK) as connection,
        ):
            await connection.json("GET", "/v1/models")
            asked = len(away.asked)
            assert asked > 0
            await connection.json("GET", "/v1/models")
            assert len(away.asked) == asked
        assert len(here.asked) == 2

    run(work)


def test_a_write_that_a_replica_refuses_goes_to_the_next_url() -> None:
    async def work() -> None:
        no = problem(ReadOnly("this is a replica; ask home"))
        async with (
            scripted(no) as replica,
            scripted(ok({})) as home,
            Connection([replica.url, home.url], None, QUICK) as connection,
        ):
            await connection.json("POST", "/v1/x", document={})
            async with Connection([replica.url], None, QUICK) as only:
                with pytest.raises(ReadOnly, match="ask home"):
                    await only.json("POST", "/v1/x", document={})
        assert len(home.asked) == 1

    run(work)


def test_a_refusal_is_not_asked_again() -> None:
    async def work() -> None:
        async with (
            scripted(problem(Conflict("somebody was first"))) as server,
            Connection([server.url], None, QUICK) as connection,
        ):
            with pytest.raises(Conflict, match="somebody was first"):
                await connection.json("PUT", "/v1/x", document={}, revision=7)
        assert len(server.asked) == 1
        assert server.asked[0][2]["if-match"] == '"7"'

    run(work)


def test_a_full_registry_is_asked_again() -> None:
    async def work() -> None:
        busy = problem(Overloaded("full", 0.0))
        async with (
            scripted(busy, busy, ok({})) as server,
            Connection([server.url], None, QUICK) as connection,
        ):
            await connection.json("POST", "/v1/x", document={})
        assert len(server.asked) == 3

    # its Retry-After is a second at least, which pause_s_max bounds
    run(work)


def test_a_redirect_takes_the_key_nowhere() -> None:
    async def work() -> None:
        async with scripted(ok({})) as other:
            leads = response(302, b"", f"Location: {other.url}/v1/models\r\n")
            async with (
                scripted(leads) as server,
                Connection([server.url], KEY, QUICK) as connection,
            ):
                with pytest.raises(Refused, match="HTTP status 302"):
                    await connection.json("GET", "/v1/models")
        assert not other.asked

    run(work)


def test_an_answer_beyond_its_bound_is_cut_off() -> None:
    async def work() -> None:
        small = QUICK.model_copy(update={"answer_bytes_max": 100})
        async with (
            scripted(response(200, b"x" * 101)) as server,
            Connection([server.url], None, small) as connection,
        ):
            with pytest.raises(TooLarge, match="over 100 bytes"):
                await connection.json("GET", "/v1/models")

    run(work)


def test_a_server_that_says_nothing_is_left() -> None:
    async def work() -> None:
        deaf = HASTY.model_copy(update={"silence_s_max": 0.05})
        async with (
            scripted(SILENT) as server,
            Connection([server.url], None, deaf) as connection,
        ):
            with pytest.raises(Disconnected):
                await connection.json("GET", "/v1/models")

    run(work)


@pytest.mark.parametrize(
    "garbage", [b"hello\r\n\r\n", b"HTTP/1.1 200 x\r\nContent-Length: z\r\n\r\n"]
)
def test_what_is_no_http_is_no_registry(garbage: bytes) -> None:
    async def work() -> None:
        async with (
            scripted(garbage) as server,
            Connection([server.url], None, HASTY) as connection,
        ):
            with pytest.raises(Disconnected):
                await connection.json("GET", "/v1/models")

    run(work)


def test_an_answer_that_is_packed_is_not_unpacked() -> None:
    async def work() -> None:
        packed = response(200, b"\x1f\x8b\x08" + bytes(64), "Content-Encoding: gzip\r\n")
        async with (
            scripted(packed) as server,
            Connection([server.url], None, QUICK) as connection,
        ):
            with pytest.raises(Malformed, match="not JSON"):
                await connection.json("GET", "/v1/models")
        assert server.asked[0][2]["accept-encoding"] == "identity"

    run(work)


def test_a_body_is_sent_anew_with_its_length() -> None:
    async def work() -> None:
        async with (
            scripted(CUT, ok({})) as server,
            Connection([server.url], None, QUICK) as connection,
        ):
            await connection.json("PUT", "/v1/x", document={"a": "b"})
        assert [headers["content-length"] for _, _, headers in server.asked] == ["10", "10"]

    run(work)


def test_names_stay_one_segment() -> None:
    async def work() -> None:
        async with (
            scripted(problem(Unknown("none"))) as server,
            Connection([server.url], None, QUICK) as connection,
        ):
            with pytest.raises(Unknown):
                await connection.json("GET", f"/v1/models/{quoted('../a b?c#d%2f')}")
        assert server.asked[0][1] == "/v1/models/..%2Fa%20b%3Fc%23d%252f"

    run(work)


@pytest.mark.parametrize(
    "url", ["", "here:80", "ftp://here", "http://", "http://a:b@here", "http://h/?q", "http://h:x"]
)
def test_what_is_no_url_of_a_registry(url: str) -> None:
    with pytest.raises(Malformed, match="registry") as refused:
        checked_url(url)
    assert "a:b" not in str(refused.value)


def test_urls_and_keys_are_checked_before_anything_is_asked() -> None:
    assert checked_url("https://here/registry/") == "https://here/registry"
    with pytest.raises(Malformed, match="no registry is named"):
        Connection([], None, QUICK)
    with pytest.raises(Malformed, match="characters that no key has"):
        Connection(["http://here"], "a\r\nb: c", QUICK)
