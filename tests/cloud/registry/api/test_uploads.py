"""Uploads over HTTP: resumed, checked, bounded, and cut where they are slow."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from cloud.gateway.roles import Role
from tests.cloud.keyed_process import DEADLINE_S, Reply, until
from tests.cloud.registry.pushing import sha256, upload
from tests.cloud.registry.servers import RegistryProcess


def stands_at(registry: RegistryProcess, content: bytes) -> Reply:
    return registry.call("HEAD", f"/v1/uploads/{sha256(content)}", role=Role.TRAINER)


@contextmanager
def sending(registry: RegistryProcess, content: bytes, part: bytes) -> Iterator[socket.socket]:
    """A client that announced all of `content`, sent `part` of it, and sends no more."""
    where = urlsplit(registry.url)
    lines = (
        f"PATCH /v1/uploads/{sha256(content)} HTTP/1.1", "Host: registry",
        f"X-API-Key: {registry.key('trainer')}", "Upload-Offset: 0",
        f"Upload-Length: {len(content)}", f"Content-Length: {len(content)}", "", "",
    )  # fmt: skip
    with socket.create_connection((str(where.hostname), where.port), DEADLINE_S) as connection:
        connection.sendall("\r\n".join(lines).encode() + part)
        yield connection


def until_offset(registry: RegistryProcess, content: bytes, offset: int) -> None:
    until(lambda: stands_at(registry, content).headers.get("upload-offset") == str(offset))


def test_one_request(running: RegistryProcess) -> None:
    content = os.urandom(100_000)
    assert stands_at(running, content).status == 404
    reply = upload(running, content)
    assert (reply.status, reply.headers["upload-offset"]) == (204, "100000")
    there = stands_at(running, content)
    assert (there.status, there.headers["upload-offset"]) == (204, "100000")
    assert running.get(f"/v1/artifacts/{sha256(content)}").body == content


def test_the_same_again_is_there_at_once(running: RegistryProcess) -> None:
    content = os.urandom(1000)
    assert upload(running, content).status == 204
    assert upload(running, content).headers["upload-offset"] == "1000"


def test_resumed_from_where_it_stands(running: RegistryProcess) -> None:
    content = os.urandom(50_000)
    path = f"/v1/uploads/{sha256(content)}"
    fields = {"Upload_Length": "50000"}
    first = running.call("PATCH", path, content[:20_000], "trainer", Upload_Offset="0", **fields)
    assert (first.status, first.headers["upload-offset"]) == (204, "20000")
    wrong = running.call(
        "PATCH", path, content[10_000:], "trainer", Upload_Offset="10000", **fields
    )
    assert (wrong.status, wrong.json["type"].rsplit(":")[-1]) == (409, "conflict")
    assert upload(running, content, 20_000).headers["upload-offset"] == "50000"
    assert running.get(f"/v1/artifacts/{sha256(content)}").body == content


def test_a_cut_upload_is_gone_on_with(running: RegistryProcess) -> None:
    content = os.urandom(3_000_000)
    with sending(running, content, content[:2_200_000]):
        pass  # the connection ends here, in the middle
    until_offset(running, content, 2_200_000)  # to the last byte that came
    # whoever was cut may still be letting go of it
    until(lambda: upload(running, content, 2_200_000).status == 204)
    assert stands_at(running, content).headers["upload-offset"] == "3000000"
    assert running.get(f"/v1/artifacts/{sha256(content)}").body == content


def test_a_silent_upload_is_cut_and_what_came_is_kept(running: RegistryProcess) -> None:
    content = os.urandom(100_000)
    with sending(running, content, content[:40_000]) as connection:
        answer = connection.recv(65536)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert stands_at(running, content).headers["upload-offset"] == "40000"


def test_another_hash_is_refused_and_nothing_kept(running: RegistryProcess) -> None:
    content, other = os.urandom(5000), os.urandom(5000)
    path = f"/v1/uploads/{sha256(content)}"
    reply = running.call("PATCH", path, other, "trainer", Upload_Offset="0", Upload_Length="5000")
    assert (reply.status, reply.json["type"].rsplit(":")[-1]) == (422, "unverified")
    assert stands_at(running, content).status == 404
    assert running.get(f"/v1/artifacts/{sha256(content)}").status == 404
    assert running.get(f"/v1/artifacts/{sha256(other)}").status == 404


def test_more_than_it_said_is_refused_unread(running: RegistryProcess) -> None:
    content = os.urandom(5000)
    path = f"/v1/uploads/{sha256(content)}"
    reply = running.call("PATCH", path, content, "trainer", Upload_Offset="0", Upload_Length="4999")
    assert reply.status == 413
    assert stands_at(running, content).status == 404


def test_more_than_it_said_in_chunks_is_refused(running: RegistryProcess) -> None:
    content = os.urandom(5000)
    where = urlsplit(running.url)
    head = (
        f"PATCH /v1/uploads/{sha256(content)} HTTP/1.1\r\nHost: r\r\nConnection: close\r\n"
        f"X-API-Key: {running.key('trainer')}\r\nUpload-Offset: 0\r\nUpload-Length: 4000\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection((str(where.hostname), where.port), DEADLINE_S) as connection:
        connection.sendall(head.encode() + b"1388\r\n" + content + b"\r\n0\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 413 ")
    assert stands_at(running, content).status == 404


def test_an_artifact_has_a_largest_size(running: RegistryProcess) -> None:
    reply = running.call(
        "PATCH", f"/v1/uploads/{'2' * 64}", b"", "trainer", Upload_Offset="0",
        Upload_Length=str(2**40),
    )  # fmt: skip
    assert reply.status == 413


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Upload_Offset": "0"},
        {"Upload_Length": "1"},
        {"Upload_Offset": "-1", "Upload_Length": "1"},
        {"Upload_Offset": "0", "Upload_Length": "1e3"},
        {"Upload_Offset": "٣", "Upload_Length": "3"},
        {"Upload_Offset": "0", "Upload_Length": "9" * 200},
    ],
)
def test_numbers_that_are_none(running: RegistryProcess, headers: dict[str, str]) -> None:
    sent = {name: value.encode().decode("latin-1") for name, value in headers.items()}
    reply = running.call("PATCH", f"/v1/uploads/{'3' * 64}", b"x", "trainer", **sent)
    assert reply.status == 400


def test_packed_content_is_refused(running: RegistryProcess) -> None:
    reply = upload(running, b"packed?", Content_Encoding="gzip")
    assert reply.status == 415


def test_so_many_at_once(running: RegistryProcess) -> None:
    def the_third_is_refused() -> bool:
        """Those that are silent are let go after half a second, which a slow machine may miss."""
        one, two = os.urandom(10_000), os.urandom(10_000)
        with sending(running, one, one[:5000]), sending(running, two, two[:5000]):
            return any(upload(running, os.urandom(100)).status == 429 for _ in range(20))

    until(the_third_is_refused)
