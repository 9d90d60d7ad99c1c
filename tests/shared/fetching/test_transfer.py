import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from shared.errors import (
    Disconnected,
    Forbidden,
    HybridgeError,
    Malformed,
    NotTrusted,
    Overloaded,
    TooLarge,
    Unavailable,
    Unknown,
)
from shared.fetching.attempts import Patience, fetch_from
from shared.fetching.pace import Pace
from shared.fetching.partial import beside
from shared.fetching.session import credentials, open_session
from shared.fetching.settings import Server
from shared.fetching.transfer import fetch_bytes, fetch_file
from tests.shared.fetching.bad_server import BadServer, bad_server

CONTENT = os.urandom(300_000)
LONG = os.urandom(3_000_000)  # of a cut body the client loses what it has not read: up to 0.4 MB
Body = Callable[[BadServer, aiohttp.ClientSession], Awaitable[None]]


def with_server(body: Body) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(20),
            bad_server() as server,
            open_session(Server(urls=(server.url,))) as session,
        ):
            await body(server, session)

    asyncio.run(main())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_comes_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(CONTENT)
        target = tmp_path / "file"
        note = lambda here, whole: seen.append((here, whole))
        await fetch_file(session, url, target, sha256=sha256, bytes=size, on_progress=note)
        assert target.read_bytes() == CONTENT
        assert names_in(tmp_path) == ["file"]
        assert seen[-1] == (size, size)
        await fetch_file(session, url, target, sha256=sha256, bytes=size)
        assert len(server.seen) == 1  # what is there already is checked, not fetched

    with_server(body)


def test_an_empty_file_needs_no_server(tmp_path: Path) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, _ = server.offer(b"")
        await fetch_file(session, url, tmp_path / "f", sha256=sha256, bytes=0)
        assert (tmp_path / "f").read_bytes() == b""

    with_server(body)


def test_after_a_cut_the_next_try_goes_on_at_the_right_byte(tmp_path: Path) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(LONG)
        target = tmp_path / "file"
        server.misdeeds = [server.cuts_after(2_500_000)]
        with pytest.raises(Disconnected):
            await fetch_file(session, url, target, sha256=sha256, bytes=size)
        here = beside(target, ".partial").stat().st_size
        assert 2_000_000 < here <= 2_500_000
        await fetch_file(session, url, target, sha256=sha256, bytes=size)
        assert server.seen[-1].range == f"bytes={here}-"
        assert server.seen[-1].if_range == f'"{sha256}"'
        assert target.read_bytes() == LONG

    with_server(body)


def test_a_server_that_ignores_ranges_is_taken_from_the_start(tmp_path: Path) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(CONTENT)
        server.misdeeds = [server.cuts_after(50_000), server.says(200, CONTENT)]
        with pytest.raises(Disconnected):
            await fetch_file(session, url, tmp_path / "f", sha256=sha256, bytes=size)
        await fetch_file(session, url, tmp_path / "f", sha256=sha256, bytes=size)
        assert (tmp_path / "f").read_bytes() == CONTENT

    with_server(body)


@pytest.mark.parametrize(
    "content_range", ["bytes 0-299999/300000", "bytes 7-299999/300000", "junk", ""]
)
def test_another_range_than_was_asked_for_starts_anew(tmp_path: Path, content_range: str) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(CONTENT)
        (tmp_path / "f.partial").write_bytes(CONTENT[:1000])
        server.misdeeds = [server.says(206, b"x" * 10, Content_Range=content_range)]
        await fetch_file(session, url, tmp_path / "f", sha256=sha256, bytes=size)
        assert (tmp_path / "f").read_bytes() == CONTENT
        assert [seen.range for seen in server.seen] == ["bytes=1000-", ""]

    with_server(body)


def test_a_bit_that_flipped_in_what_lay_here_costs_one_more_fetch(tmp_path: Path) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(CONTENT)
        spoilt = bytearray(CONTENT[:100_000])
        spoilt[500] ^= 1
        (tmp_path / "f.partial").write_bytes(spoilt)
        await fetch_file(session, url, tmp_path / "f", sha256=sha256, bytes=size)
        assert (tmp_path / "f").read_bytes() == CONTENT
        assert [seen.range for seen in server.seen] == ["bytes=100000-", ""]

    with_server(body)


@pytest.mark.parametrize("left", [300_000, 300_001, 5_000_000])
def test_left_overs_as_long_as_the_file_or_longer_are_not_believed(
    tmp_path: Path, left: int
) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(CONTENT)
        (tmp_path / "f.partial").write_bytes(b"\0" * left)
        await fetch_file(session, url, tmp_path / "f", sha256=sha256, bytes=size)
        assert (tmp_path / "f").read_bytes() == CONTENT

    with_server(body)


def _flipped(server: BadServer) -> object:
    return server.says(200, CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]))


@pytest.mark.parametrize(
    ("misdeed", "error", "words"),
    [
        (_flipped, NotTrusted, "sha256"),
        (lambda s: s.says(200, CONTENT + b"x"), NotTrusted, "announces"),
        (lambda s: s.says(200, CONTENT[:-1]), NotTrusted, "announces"),
        (lambda s: s.streams(CONTENT * 9), NotTrusted, "more than"),
        (lambda s: s.streams(CONTENT[:-5]), Disconnected, "ended after"),
        (lambda s: s.says(200, CONTENT, Content_Encoding="gzip"), NotTrusted, "gzip"),
        (lambda s: s.says(404), Unknown, "not there"),
        (lambda s: s.says(403), Forbidden, "API key"),
        (lambda s: s.says(401), Forbidden, "API key"),
        (lambda s: s.says(302, Location="http://192.0.2.1/"), Unavailable, "elsewhere"),
        (lambda s: s.says(500), Disconnected, "500"),
        (lambda s: s.says(206, CONTENT), NotTrusted, "another range"),
    ],
)
def test_what_is_not_the_file_is_refused_and_nothing_is_made_of_it(
    tmp_path: Path,
    misdeed: Callable[[BadServer], object],
    error: type[HybridgeError],
    words: str,
) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(CONTENT)
        server.misdeeds = [misdeed(server)]  # type: ignore[list-item]
        with pytest.raises(error, match=words):
            await fetch_file(session, url, tmp_path / "f", sha256=sha256, bytes=size)
        assert not (tmp_path / "f").exists()
        left = tmp_path / "f.partial"
        assert left.stat().st_size < size

    with_server(body)


@pytest.mark.parametrize(("after", "wait_s"), [("7", 7.0), ("99999999", 3600.0), ("soon", None)])
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_later(
    tmp_path: Path, status: int, after: str, wait_s: float | None
) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(CONTENT)
        server.misdeeds = [server.says(status, Retry_After=after)]
        with pytest.raises(Overloaded) as refused:
            await fetch_file(session, url, tmp_path / "f", sha256=sha256, bytes=size)
        assert refused.value.retry_after_s == wait_s

    with_server(body)


@pytest.mark.parametrize("after", [0, 50_000])
def test_a_server_that_hangs_is_left_and_what_came_is_kept(tmp_path: Path, after: int) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(CONTENT)
        server.misdeeds = [server.hangs(after)]
        with pytest.raises(Disconnected, match="timed out"):
            await fetch_file(session, url, tmp_path / "f", sha256=sha256, bytes=size, stall_s=0.2)
        assert (tmp_path / "f.partial").stat().st_size == after

    with_server(body)


def open_files(path: Path) -> int:
    links = list(Path("/proc/self/fd").iterdir())
    return sum(os.path.realpath(link) == str(path) for link in links)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files as Linux does")
def test_a_transfer_that_is_given_up_while_it_reads_what_is_here_leaves_no_file_open(
    tmp_path: Path,
) -> None:
    left = tmp_path / "f.partial"
    left.write_bytes(bytes(50_000_000))  # takes a while to hash

    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        asking = fetch_file(
            session, f"{server.url}/f", tmp_path / "f", sha256="0" * 64, bytes=60_000_000
        )
        task = asyncio.ensure_future(asking)
        while not open_files(left):  # noqa: ASYNC110  of the kernel
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert open_files(left) == 0
        assert not server.seen

    with_server(body)


def test_nobody_there_is_disconnected(tmp_path: Path) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        with pytest.raises(Disconnected):
            await fetch_file(
                session, "http://127.0.0.1:1/f", tmp_path / "f", sha256="0" * 64, bytes=1
            )

    with_server(body)


def test_a_link_in_place_of_the_partial_file_is_not_followed(tmp_path: Path) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(CONTENT)
        (tmp_path / "victim").write_bytes(b"mine")
        (tmp_path / "f.partial").symlink_to(tmp_path / "victim")
        with pytest.raises(Unavailable):
            await fetch_file(session, url, tmp_path / "f", sha256=sha256, bytes=size)
        assert (tmp_path / "victim").read_bytes() == b"mine"

    with_server(body)


def test_a_cut_is_resumed_at_the_next_url(tmp_path: Path) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(LONG)
        server.misdeeds = [server.cuts_after(2_500_000), server.says(503), server.cuts_after(1000)]
        await fetch_from(
            session, [url, f"{server.url}/second/{sha256}"], tmp_path / "f", sha256=sha256,
            bytes=size, patience=Patience(backoff_s_min=0.001, backoff_s_max=0.002),
        )  # fmt: skip
        assert (tmp_path / "f").read_bytes() == LONG
        assert [seen.path.count("second") for seen in server.seen] == [0, 1, 0, 1]

    with_server(body)


def test_without_progress_the_rounds_end(tmp_path: Path) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(CONTENT)
        server.misdeeds = [server.says(503)] * 9
        with pytest.raises(Overloaded):
            await fetch_from(
                session, [url], tmp_path / "f", sha256=sha256, bytes=size,
                patience=Patience(rounds_max=3, backoff_s_min=0.001, backoff_s_max=0.002),
            )  # fmt: skip
        assert len(server.seen) == 3

    with_server(body)


def test_wrong_bytes_everywhere_are_not_asked_for_again(tmp_path: Path) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(CONTENT)
        server.misdeeds = [server.says(200, b"x" * size)] * 2
        with pytest.raises(NotTrusted):
            await fetch_from(session, [url, url], tmp_path / "f", sha256=sha256, bytes=size)
        assert len(server.seen) == 2

    with_server(body)


def test_a_small_document_is_bounded(tmp_path: Path) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, _, _ = server.offer(CONTENT[:1000])
        assert await fetch_bytes(session, url, bytes_max=1000) == CONTENT[:1000]
        assert await fetch_bytes(session, f"{server.url}/none", bytes_max=9) is None
        with pytest.raises(TooLarge):
            await fetch_bytes(session, url, bytes_max=999)
        server.misdeeds = [server.streams(CONTENT)]
        with pytest.raises(TooLarge):
            await fetch_bytes(session, url, bytes_max=1000)
        server.misdeeds = [server.says(503, Retry_After="1")]
        with pytest.raises(Overloaded):
            await fetch_bytes(session, url, bytes_max=1000)

    with_server(body)


def test_a_pace_is_kept_on_average_and_shared() -> None:
    pace = Pace(1000, burst_s=1.0)
    assert pace.spend(1000, now=0.0) == 0.0  # the burst
    assert pace.spend(500, now=0.0) == 0.5
    assert pace.spend(500, now=0.5) == 0.5
    assert pace.spend(0, now=100.0) == 0.0
    assert pace.spend(2000, now=100.0) == 1.0  # a long pause gives one burst, no more
    assert pace.spend(0, now=50.0) == 1.0  # a clock that steps back gives nothing


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_pace_that_is_none_is_refused(rate: float) -> None:
    with pytest.raises(Malformed):
        Pace(rate)


def test_a_transfer_waits_for_its_pace(tmp_path: Path) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        url, sha256, size = server.offer(CONTENT)
        loop = asyncio.get_running_loop()
        began = loop.time()
        pace = Pace(1_000_000, burst_s=0.1)
        await fetch_file(session, url, tmp_path / "f", sha256=sha256, bytes=size, pace=pace)
        assert loop.time() - began >= 0.2  # 300 kB, 100 of them at once

    with_server(body)


def test_the_api_key_is_read_from_its_file_each_time(tmp_path: Path) -> None:
    file = tmp_path / "key"
    server = Server(urls=("https://registry.example",), api_key_file=file)
    for key in ("hyb_one", "hyb_two"):
        file.write_text(f"{key}\n")
        assert credentials(server) == {"X-API-Key": key}
    for content in (b"", b"\n", b"a b", "schlüssel".encode(), b"k\0", b"k" * 5000):
        file.write_bytes(content)
        with pytest.raises(Malformed, match="api_key_file") as refused:
            credentials(server)
        assert content not in str(refused.value).encode() or not content.strip()
    file.unlink()
    with pytest.raises(Malformed, match="name a file"):
        credentials(server)


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "https://key@host", "http://host/?q=1", "", "x" * 301]
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="urls"):
        Server(urls=(url,))


@pytest.mark.parametrize("piece", [b" ", bytes(1500)], ids=["drips", "never ends"])
def test_a_small_document_that_takes_for_ever_is_given_up(piece: bytes) -> None:
    async def body(server: BadServer, session: aiohttp.ClientSession) -> None:
        server.misdeeds = [server.goes_on_with(piece)]
        with pytest.raises(Disconnected):
            await fetch_bytes(session, f"{server.url}/it", bytes_max=10**9, stall_s=0.1)

    with_server(body)
