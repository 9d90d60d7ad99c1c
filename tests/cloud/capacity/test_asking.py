"""Against a real small server; the commands' tests ask a real worker."""

import http.server
import threading
from collections.abc import Iterator

import pytest

from cloud.capacity.asking import get
from shared.errors import Forbidden, HybridgeError, Malformed, NotTrusted, Unavailable, Unknown

BIG = 8 * 1024 * 1024


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        word = self.path.strip("/")
        status = int(word) if word.isdigit() else 200
        body = b"x" * (BIG + 1) if word == "big" else f"said\n{word}".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  its own name
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_body_comes_as_it_is(url: str) -> None:
    assert get(url, "/hello", "k") == b"said\nhello"


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (401, NotTrusted, "--key-file"), (403, Forbidden, "another role"), (404, Unknown, "/404"),
        (503, Unavailable, "503: said 503"), (302, Unavailable, "302"),
    ],
)  # fmt: skip
def test_each_status_is_said_in_words(
    url: str, status: int, kind: type[HybridgeError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        get(url, f"/{status}", None)


def test_a_body_over_its_bound_is_refused(url: str) -> None:
    with pytest.raises(Malformed, match=f"over {BIG} bytes"):
        get(url, "/big", None)
