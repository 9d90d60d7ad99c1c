"""Real generator processes against a small real server."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from cloud.capacity.load import generator
from cloud.capacity.load.arrivals import Stretch
from cloud.capacity.load.client import Connection
from cloud.capacity.load.order import Messages
from cloud.capacity.load.outcomes import phase
from shared.errors import Malformed, Unavailable

MESSAGE = b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nabcd"
MESSAGES = Messages((MESSAGE,), (len(MESSAGE) - 4, len(MESSAGE) - 3))
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
Answer = Callable[[int], bytes | None]


class _Server(asyncio.Protocol):
    """Answers the n-th request with `answer(n)`; empty: it closes the connection; None: nothing."""

    def __init__(self, seen: list[bytes], answer: Answer) -> None:
        self._seen, self._answer = seen, answer
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        while len(self._held) >= len(MESSAGE):
            self._seen.append(self._held[: len(MESSAGE)])
            self._held = self._held[len(MESSAGE) :]
            answer = self._answer(len(self._seen))
            assert isinstance(self._transport, asyncio.Transport)
            if answer:
                self._transport.write(answer)
            elif answer is not None:
                self._transport.close()


@contextlib.contextmanager
def server(answer: Answer) -> Iterator[tuple[str, list[bytes]]]:
    seen: list[bytes] = []
    loop = asyncio.new_event_loop()
    listening = loop.run_until_complete(
        loop.create_server(lambda: _Server(seen, answer), "127.0.0.1", 0)
    )
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", seen
    finally:
        listening.close()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_two_generators_share_the_rate_and_every_request_is_its_own(tmp_path: Path) -> None:
    with server(lambda _: OK) as (url, seen):
        found = generator.run(
            url, MESSAGES, [Stretch(200, 1.0)], tmp_path, connections=8, generators=2
        )
    assert 130 < len(found.due) < 270
    assert (found.status == 200).all()
    assert (np.diff(found.due) >= 0).all()
    assert (found.done >= found.sent).all()
    assert (found.sent >= found.noticed).all()
    assert (found.noticed >= found.due).all()
    assert len(seen) == len(found.due)
    assert len(set(seen)) >= len(seen) // 2  # each generator counts from 0


def test_what_is_refused_or_breaks_is_told_and_the_load_goes_on(tmp_path: Path) -> None:
    def answer(number: int) -> bytes:
        if number % 10 == 3:
            return b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\ncontent-length: 0\r\n\r\n"
        if number % 10 == 6:
            return b""
        if number % 10 == 9:
            return b"HTTP/1.1 200 OK 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        return OK

    with server(answer) as (url, _):
        found = generator.run(url, MESSAGES, [Stretch(200, 1.0)], tmp_path, connections=4)
    seen = phase(found, 0, 1)
    total = len(found.due)
    assert seen.refused == pytest.approx(total / 10, abs=2)
    assert seen.failed == pytest.approx(total / 5, abs=3)
    assert seen.answered + seen.refused + seen.failed == total


def test_an_answer_in_pieces_is_one_answer(tmp_path: Path) -> None:
    big = b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + bytes(3_000_000)
    with server(lambda _: big) as (url, seen):
        found = generator.run(url, Messages((MESSAGE,)), [Stretch(10, 0.5)], tmp_path)
    assert (found.status == 200).all()
    assert set(seen) == {MESSAGE}


def test_what_is_never_answered_ends_with_its_time(tmp_path: Path) -> None:
    with server(lambda number: None if number == 2 else OK) as (url, _):
        found = generator.run(
            url, MESSAGES, [Stretch(100, 0.3)], tmp_path, connections=4, patience_s=0.1
        )
    assert sorted(found.status.tolist())[:2] == [0, 200]


def test_an_answer_without_an_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cloud.capacity.load.client._ANSWER_BYTES_MAX", 1000)

    class Cut(asyncio.Transport):
        aborted = False

        def abort(self) -> None:
            self.aborted = True

    one, transport = Connection(lambda *_: None, lambda _: None), Cut()
    one.connection_made(transport)
    one.data_received(b"x" * 1000)
    assert not transport.aborted
    one.data_received(b"x")
    assert transport.aborted


def test_a_load_so_low_that_nothing_comes_ends(tmp_path: Path) -> None:
    with server(lambda _: OK) as (url, _):
        found = generator.run(url, MESSAGES, [Stretch(0.001, 0.5)], tmp_path, connections=1)
    assert phase(found, 0, 0.5).answered == 0


def test_no_server_is_said_in_words(tmp_path: Path) -> None:
    with server(lambda _: OK) as (url, _):
        pass
    with pytest.raises(Unavailable, match=r"did not begin: 127\.0\.0\.1:\d+: "):
        generator.run(url, MESSAGES, [Stretch(10, 0.5)], tmp_path)


@pytest.mark.parametrize(
    "url",
    ["https://h:1", "http://", "h:1", "http://h:99999", "http://h:1/path", "http://h?x=1", "http://[::1"],
)  # fmt: skip
def test_addresses_that_a_load_cannot_be_made_to_are_refused(url: str) -> None:
    with pytest.raises(Malformed, match="http://"):
        generator.address(url)


def test_an_address() -> None:
    assert generator.address("http://127.0.0.1:8700/") == ("127.0.0.1", 8700)
    assert generator.address("http://h") == ("h", 80)
