"""What nobody in his right mind sends: refused in words, bounded, and nothing changed by it."""

import json
import socket
from urllib.parse import quote, urlsplit

import pytest
from pydantic import ValidationError

from cloud.gateway.roles import Role
from cloud.registry.api.schemas import MissingRequest, RunnerRequest
from shared.config import in_words
from tests.cloud.keyed_process import DEADLINE_S
from tests.cloud.registry.servers import RegistryProcess

NAMES = (
    "..", ".", "a/b", "..%2f..%2fetc", "%2e%2e", "a%00b", "a\nb", "A", "ä", "-a", "a b", "a%", "a;b",
    "x" * 65, "x" * 7000, "a\u202eb", "😀", "%ff", "",
)  # fmt: skip


def head_of(registry: RegistryProcess) -> object:
    return registry.get("/v1/registry").json["head"]


@pytest.fixture(autouse=True)
def _nothing_changes(running: RegistryProcess) -> object:
    before = head_of(running)
    yield
    assert head_of(running) == before


def raw(registry: RegistryProcess, *parts: bytes) -> bytes:
    """All that comes until the server closes."""
    where = urlsplit(registry.url)
    content = b""
    with socket.create_connection((str(where.hostname), where.port), DEADLINE_S) as connection:
        for part in parts:
            connection.sendall(part)
        while chunk := connection.recv(65536):
            content += chunk
    return content


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize(
    ("method", "path", "role"),
    [
        ("PUT", "/v1/models/{}", "trainer"),
        ("GET", "/v1/models/m/versions/{}", "viewer"),
        ("PUT", "/v1/data-sets/{}/1", "trainer"),
        ("GET", "/v1/artifacts/{}", "fetch"),
        ("PATCH", "/v1/uploads/{}", "trainer"),
        ("GET", "/tuf/{}", "fetch"),
        ("POST", "/v1/trust/{}", "operator"),
        ("GET", "/v1/evaluations/{}", "viewer"),
    ],
)  # fmt: skip
def test_a_name_that_is_none(
    running: RegistryProcess, method: str, path: str, role: str, name: str
) -> None:
    reply = running.call(
        method, path.format(quote(name, safe="%")), b"{}", role,
        Upload_Offset="0", Upload_Length="2",
    )  # fmt: skip
    assert reply.status in (400, 404, 405)
    assert reply.json["detail"].isprintable()
    assert len(reply.body) < 2000


@pytest.mark.parametrize("runner", ["a/b", "a%2fb", "x" * 65, "a%0ab", ""])
def test_a_runner_that_is_none(running: RegistryProcess, runner: str) -> None:
    body = {"model": "m", "version": "1.0.0", "variant": "v"}
    status = running.call("PUT", f"/v1/runners/{runner}", body, Role.FETCH).status
    assert status in (400, 404, 405)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/models?x=1", "takes none"),
        ("/v1/log?after=-1", "want a number"),
        ("/v1/log?after=1&after=2", "twice"),
        ("/v1/log?limit=0", "from 1"),
        ("/v1/log?limit=1001", "to 1000"),
        ("/v1/log?after=1e3", "want a number"),
        ("/v1/log?after=" + "9" * 500, "want a number"),
        ("/v1/log?wait_s=nan", "want seconds"),
        ("/v1/log?wait_s=-1", "want seconds"),
        ("/v1/log?__proto__=1", "not known"),
        ("/v1/models/m/history?version=..", "is no version"),
        ("/v1/runners?model=A", "is no model"),
        ("/v1/log?" + "&".join(f"a{i}=1" for i in range(300)), "not known"),
    ],
)
def test_a_query_that_is_none(running: RegistryProcess, path: str, said: str) -> None:
    reply = running.get(path)
    assert (reply.status, said in reply.json["detail"]) == (400, True), reply.body
    assert len(reply.body) < 2000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"null", 400),
        (b"[]", 400),
        (b"{", 400),
        (b'{"manifest_sha256": "' + b"0" * 64 + b'", "x": 1}', 400),
        (b'{"manifest_sha256": "' + b"0" * 64 + b'", "manifest_sha256": 1}', 400),
        (b'{"manifest_sha256": NaN}', 400),
        (b'{"manifest_sha256": "../../etc/passwd"}', 400),
        (b'{"manifest_sha256": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}", 400),
        (b'{"origin": {"parent": "\\ud800"}}', 400),
        (b"\xff\xfe", 400),
        (b'{"manifest_sha256": "' + b"0" * 64 + b'", "origin": {"dependencies": [' +
         b",".join([b'{"name": "a", "version": "1"}'] * 501) + b"]}}", 400),
        (b" " * (1024 * 1024 + 1), 413),
    ],
    ids=range(13),
)  # fmt: skip
def test_a_document_that_is_none(running: RegistryProcess, body: bytes, status: int) -> None:
    reply = running.call("PUT", "/v1/models/m/versions/1.0.0", body, Role.TRAINER)
    assert reply.status == status, reply.body
    assert len(reply.body) < 3000


def test_a_document_that_is_wrong_in_every_second_byte() -> None:
    """340,000 findings took seven seconds to find and to put into words, on the event loop."""
    with pytest.raises(ValidationError) as refusal:
        MissingRequest.model_validate_json(b'{"sha256": [' + b",".join([b"0"] * 340_000) + b"]}")
    assert refusal.value.error_count() == 1  # the first of a list ends it
    unknown = {f"member{number}": 1 for number in range(1000)}
    with pytest.raises(ValidationError) as refusal:
        RunnerRequest.model_validate(unknown)
    words = in_words(refusal.value)
    assert words.endswith("; and 983 more")
    assert len(words) < 2000


@pytest.mark.parametrize("engines", [[], ["onnxruntime"] * 4, ["other"], "onnxruntime"])
def test_a_gate_of_no_engine_or_of_many_is_refused(
    running: RegistryProcess, engines: object
) -> None:
    reply = running.call(
        "PUT", "/v1/models/m", {"owner": "o", "gate": {"engines": engines}}, "trainer"
    )
    assert reply.status == 400


@pytest.mark.parametrize("rules", ["accuracy >", "f1 >= curent + 1", "import os", "(" * 3000, ""])
def test_a_rule_that_does_not_parse_is_refused_when_it_is_made(
    running: RegistryProcess, rules: str
) -> None:
    reply = running.call("PUT", "/v1/models/m", {"owner": "o", "gate": {"rules": rules}}, "trainer")
    assert reply.status == 400


@pytest.mark.parametrize("seen", ["x", '"-1"', "*", 'W/"1"', '"1", "2"', '"' + "9" * 99 + '"'])
def test_a_revision_that_is_none(running: RegistryProcess, seen: str) -> None:
    reply = running.call("PUT", "/v1/models/m", {}, Role.APPROVER, If_Match=seen)
    assert reply.status == 400


def test_a_packed_bomb(running: RegistryProcess) -> None:
    import zlib  # noqa: PLC0415  used once

    bomb = zlib.compress(b" " * 50_000_000, 9)
    reply = running.call("PUT", "/v1/models/m", bomb, Role.TRAINER, Content_Encoding="deflate")
    assert reply.status == 413


def test_headers_without_end(running: RegistryProcess) -> None:
    head = b"GET /v1/models HTTP/1.1\r\nHost: r\r\n"
    for sent in (
        head + b"X: " + b"a" * 20_000 + b"\r\n\r\n",
        head + b"".join(b"X-%d: a\r\n" % i for i in range(20_000)) + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",  # TLS
    ):
        assert b" 400 " in raw(running, sent).partition(b"\r\n")[0]


def test_a_body_that_does_not_come(running: RegistryProcess) -> None:
    head = (
        "PUT /v1/models/m HTTP/1.1\r\nHost: r\r\nContent-Length: 100\r\n"
        f"X-API-Key: {running.key('trainer')}\r\n\r\n"
    )
    answer = raw(running, head.encode() + b'{"own')
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"].endswith("slow-body")


def test_a_web_page_is_refused(running: RegistryProcess) -> None:
    reply = running.get("/v1/models", Origin="https://evil.example")
    assert reply.status == 403


def test_what_waits_for_the_log_is_bounded(running: RegistryProcess) -> None:
    seq = running.get("/v1/registry").json["head"]["seq"]
    key = running.key("viewer")
    head = f"GET /v1/log?after={seq}&wait_s=30 HTTP/1.1\r\nHost: r\r\nX-API-Key: {key}\r\n\r\n"
    where = urlsplit(running.url)
    waiting = []
    try:
        for _ in range(4):  # `waits_max` of the fixture
            one = socket.create_connection((str(where.hostname), where.port), DEADLINE_S)
            waiting.append(one)
            one.sendall(head.encode())
        for _ in range(500):  # each look is a round trip, and waits itself for a moment
            reply = running.get(f"/v1/log?after={seq}&wait_s=0.001")
            if reply.status == 429:
                break
        assert reply.status == 429
        assert running.get(f"/v1/log?after={seq}").status == 200  # who does not wait is answered
    finally:
        for one in waiting:
            one.close()
