"""`hybridge-edge updates` where what answers is no agent."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest

from edge import api_url
from edge.config import Config
from edge.updates.command import ask
from shared.errors import Disconnected, HybridgeError, Malformed, Refused, Unavailable


class NoAgent(BaseHTTPRequestHandler):
    """Says `answer` (a whole response) to everything, and closes."""

    answer: ClassVar[bytes] = b""
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.wfile.write(self.answer)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    NoAgent.asked.clear()
    with HTTPServer(("127.0.0.1", 0), NoAgent) as server:
        serving = Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def config(state_dir: Path) -> Config:
    return Config(device_id="d", state_dir=state_dir, bundle=state_dir)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\n{}", Malformed),
        (b"HTTP/1.0 200 OK\r\n\r\n" + b" " * 1_000_000 + b"{}", Malformed),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Disconnected),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n", HybridgeError),
        (b"HTTP/1.0 302 Found\r\nLocation: /elsewhere\r\n\r\n", Refused),
    ],
    ids=["other json", "too long", "no http", "cut off", "a redirect"],
)
def test_what_answers_like_no_agent_is_one_refusal(
    tmp_path: Path, url: str, answer: bytes, error: type[HybridgeError]
) -> None:
    NoAgent.answer = answer
    api_url.write(tmp_path, url)
    with pytest.raises(error):
        ask(config(tmp_path), "status", {})
    assert NoAgent.asked == ["/v1/updates"]


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    api_url.write(tmp_path, "http://127.0.0.1:1")
    with pytest.raises(Disconnected):
        ask(config(tmp_path), "status", {})
    assert NoAgent.asked == []


@pytest.mark.parametrize(
    "content", ["", "file:///etc/passwd", "http://a b", "http://a\nb", "x" * 999]
)
def test_an_address_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "api.url").write_text(content)
    with pytest.raises(Unavailable):
        ask(config(tmp_path), "status", {})


def test_a_planted_link_is_replaced_and_not_written_through(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    for name in (".api.url", "api.url"):
        (tmp_path / name).symlink_to(other)
    api_url.write(tmp_path, "http://[::1]:80")
    assert other.read_text() == "precious"
    assert api_url.read(tmp_path) == "http://[::1]:80"
