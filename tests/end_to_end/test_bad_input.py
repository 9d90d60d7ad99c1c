"""Bad input to real processes: refused in words, logged once, counted, and nobody else disturbed."""

import gzip
import json
import socket
import sqlite3
from collections import Counter
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zstandard
from PIL import Image

from shared.new_ids import new_sample_id
from shared.wire.envelope import (
    CloudAnswer,
    Escalation,
    Payload,
    Refusal,
    pack_downlink,
    pack_escalation,
)
from tests.end_to_end.site import INFER, Site, images, open_site, request
from tests.tiny_bundle import sure_image, unsure_image

EVIL = "hy/v1/evil/up/esc"
OURS = "hy/v1/cam-1/down/ans"
FLOOD = 2000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with open_site(tmp_path_factory.mktemp("site")) as it:
        (it.folder / "in").mkdir()
        it.configure(
            "[routing]\naudit_share = 0.0\n"
            '[[sources]]\nkind = "folder"\npath = "in"\ninterval_s = 0.05\nafter = "delete"\n'
        )
        it.up("broker", "cloud", "agent")
        it.good()
        yield it
        assert [it.down(name) for name in ("agent", "cloud", "broker")] == [0, 0, 0]


@pytest.fixture(autouse=True)
def undisturbed(site: Site) -> Iterator[None]:
    """Whatever a test does, good samples are answered right after it and nothing is lost."""
    for name in ("agent", "cloud", "broker"):
        site.new_lines(name)
    yield
    site.good()
    status = site.ask("/v1/status").document
    assert (status["ledger"], status["outbox"]["samples"]) == ({}, 0)


def floats(value: float) -> dict[str, object]:
    return {"datatype": "FP32", "data": [value] * 16}


ONE = sure_image(1)[None]
NAN = np.full((1, 4, 4), np.nan, "<f4").tobytes()


def binary(content: bytes, **changes: object) -> tuple[bytes, dict[str, str]]:
    document = request(ONE, parameters={"binary_data_size": len(content)}, **changes)
    del document["inputs"][0]["data"]  # type: ignore[index]  # a list of one tensor
    head = json.dumps(document).encode()
    return head + content, {"Inference-Header-Content-Length": str(len(head))}


BAD_REQUESTS: dict[str, tuple[str, object, dict[str, str], int, str]] = {
    "another dtype": (INFER, request(ONE, **floats(1.0)), {}, 400, "is FP32[1, 4, 4]; send UINT8["),
    "another shape": (INFER, request(ONE[:, :3]), {}, 400, "has shape [1, 3, 4]; send UINT8[N,4,4]"),
    "too few values": (INFER, request(ONE, data=[1]), {}, 400, "takes 16 elements; data has 1"),
    "no rows": (INFER, request(ONE[:0]), {}, 400, "send UINT8[N,4,4]"),
    "a giant shape": (INFER, request(ONE, shape=[2**31] * 4), {}, 413, "elements"),
    "NaN": (INFER, b'{"inputs": [NaN]}', {}, 400, "NaN is not a JSON number"),
    "binary NaN": (INFER, *binary(NAN, datatype="FP32"), 400, "is FP32[1, 4, 4]; send UINT8["),
    "an empty body": (INFER, b"", {}, 400, "is empty; send a JSON object"),
    "a body cut short": (INFER, b'{"inputs": [{"name"', {}, 400, "not JSON"),
    "another input": (INFER, request(ONE, name="x"), {}, 404, "there is no 'x'; tiny-edge takes image"),
    "half a character": (INFER, {**request(ONE), "id": "\ud800"}, {}, 400, "half a surrogate pair"),
    "a long id": (INFER, {**request(ONE), "id": "i" * 257}, {}, 400, "at most 256"),
    "too many rows": (INFER, request(images(257)), {}, 413, "send at most 256 at once"),
    "an unknown model": ("/v2/models/none/infer", request(ONE), {}, 404, "runs 'tiny-edge'"),
    "another version": ("/v2/models/tiny-edge/versions/9/infer", b"{}", {}, 404, "runs 1.0.0"),
    "a gzip bomb": (
        INFER, gzip.compress(bytes(16 << 20)), {"Content-Encoding": "gzip"}, 413, "at most 8388608",
    ),
    "no sample id": ("/v1/answers/%00%0a%1b", None, {}, 400, "is not a UUID"),
    "an unknown sample": (f"/v1/answers/{new_sample_id()}", None, {}, 404, "check the id"),
}  # fmt: skip


def test_a_bad_request_is_refused_in_words_counted_and_logged_once(site: Site) -> None:
    before = Counter(site.counters())
    expected = Counter[str]()
    for name, (path, body, headers, status, words) in BAD_REQUESTS.items():
        for _ in range(2):
            reply = site.ask(path, body, headers=headers)
            assert (reply.status, words in reply.document["error"]) == (status, True), (
                name, reply.document,
            )  # fmt: skip
            expected[f"http_{status}"] += 1
    after = Counter(site.counters())
    assert {name: after[name] - before[name] for name in expected} == expected
    lines = [line for line in site.new_lines("agent") if line["event"] == "request_refused"]
    assert sorted(line["status"] for line in lines) == [400, 404, 413]
    assert all(line["why"] and line["path"] for line in lines)


def test_control_characters_in_an_id_come_back_as_they_went(site: Site) -> None:
    odd = "a\x00\x1b[2J\r\nb\u2028\U0001f600"
    reply = site.ask(INFER, {**request(unsure_image(5)[None]), "id": odd})
    assert (reply.status, reply.document["id"]) == (200, odd)
    assert site.final(reply.output("sample_id"))["position"] == f"{odd}[0]"


def test_a_gigabyte_is_refused_early(site: Site) -> None:
    head = f"POST {INFER} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode()
    declared = speak(site.port("agent"), head + b"Content-Length: 1073741824\r\n\r\n")
    chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
    streamed = speak(
        site.port("agent"), head + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 1024
    )
    for said in (declared, streamed):
        assert said[:12] in (b"HTTP/1.1 413", b"")  # hung up on, where we did not stop to listen
    assert declared.startswith(b"HTTP/1.1 413")
    cloud = speak(site.port("cloud"), head + b"Content-Length: 1073741824\r\n\r\n", patient=False)
    assert cloud.startswith(b"HTTP/1.1 413")


def test_bytes_that_are_no_protocol_are_one_line_for_each_port(site: Site) -> None:
    noise = np.random.default_rng(1).bytes(3000)
    garbage = [b"\x16\x03\x01\x02\x00hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\0" * 500, noise]
    for name in ("agent", "cloud", "broker"):
        for said in garbage * 5:
            assert not speak(site.port(name), said).startswith(b"HTTP/1.1 200")
    assert site.counters()["http_unreadable"] == 20
    assert site.cloud("hybridge_http_unreadable_total") == 20
    for name in ("agent", "cloud"):
        (line,) = [x for x in site.new_lines(name) if x["event"] == "http_unreadable"]
        assert line["why"]
        assert "trace" not in line
    closed = [x for x in site.new_lines("broker") if x["event"] == "connection_closed"]
    assert 1 <= len(closed) <= 3  # one for each reason
    assert all(line["why"] for line in closed)


def png(image: Any) -> bytes:
    file = BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def npy(array: Any) -> bytes:
    file = BytesIO()
    np.save(file, array)
    return file.getvalue()


def jpeg() -> bytes:
    file = BytesIO()
    Image.fromarray(sure_image(0)).save(file, "JPEG")
    return file.getvalue()


BAD_IMAGES = {
    "cut.png": png(sure_image(0))[:-20],
    "damaged.png": png(sure_image(0)).replace(b"IDAT", b"IDAX"),
    "cut.jpg": jpeg()[:-2],
    "damaged.jpg": jpeg()[:20] + b"\xff\xd9",
    "wide.png": png(np.zeros((4, 9), np.uint8)),
    "floats.npy": npy(np.zeros((4, 4), np.float32)),
    "nan.npy": npy(np.full((4, 4), np.nan, np.float32)),
    "pickle.npy": npy(np.array([{}], object)),
    "two.npy": npy(np.zeros((2, 4, 4), np.uint8)),
    "empty.png": b"",
    "words.txt": b"this is no image",
    "bomb.png": png(np.zeros((1, 1), np.uint8)).replace(
        b"\0\0\0\1\0\0\0\1", b"\0\1\0\0\0\1\0\0", 1
    ),
}


def test_bad_images_are_set_aside_counted_and_logged_once(site: Site) -> None:
    folder = site.folder / "in"
    before = Counter(site.counters())
    for name, content in BAD_IMAGES.items():
        put(folder, name, content)
    put(folder, "good.png", png(sure_image(2)))
    site.until(lambda: site.counters()["recorded"] == before["recorded"] + 1)
    site.until(lambda: {p.name for p in (folder / ".refused").iterdir()} == set(BAD_IMAGES))
    after = Counter(site.counters())
    refused = sum(after[name] - before[name] for name in after if name.startswith("refused_"))
    assert refused == len(BAD_IMAGES)
    lines = [line for line in site.new_lines("agent") if line["event"] == "sample_refused"]
    assert len(lines) == len({line["reason"] for line in lines})
    assert all(line["position"] in line["why"] for line in lines)


def put(folder: Path, name: str, content: bytes) -> None:
    (folder / f".{name}").write_bytes(content)
    (folder / f".{name}").rename(folder / name)


def escalation(**changes: object) -> bytes:
    e = Escalation(
        new_sample_id(), "tiny-edge", "1.0.0", "escalated", 60_000, 1.0, 0, 0.3,
        Payload("raw", "uint8", (4, 4), unsure_image().tobytes()),
    )  # fmt: skip
    return bytes(msgpack.packb({**msgpack.unpackb(pack_escalation(e)), **changes}))


def bomb(size: int) -> bytes:
    """A frame that does not say how much it unpacks to."""
    compressor = zstandard.ZstdCompressor(level=19, write_content_size=False)
    return compressor.compress(bytes(size))


BAD_MESSAGES: dict[str, bytes] = {
    "nothing": b"",
    "noise": b"\xc1" * 50,
    "json": b'{"v": 1}',
    "an array of four billion": b"\xdd\xff\xff\xff\xff",
    "a map in a map in a map": b"\x81\xa1a" * 20_000,
    "too long": bytes(200_000),
    "a newer version": escalation(v=2),
    "an id of text": escalation(id="sixteen letters."),
    "an id of numbers": escalation(id=list(range(16))),
    "no id": msgpack.packb({"v": 1}),
    "control characters": escalation(m="tiny\x00\x1b[2J"),
    "NaN": escalation(ec=float("nan")),
    "nine axes": escalation(s=[1] * 9),
    "a long dictionary": escalation(dict="0" * 50_000),
}
REFUSED_MESSAGES: dict[str, tuple[bytes, str]] = {
    "another shape": (escalation(s=[5, 5]), "malformed"),
    "giant axes": (escalation(s=[2**31 - 1] * 8), "malformed"),
    "bytes missing": (escalation(d=b"123"), "malformed"),
    "another dtype": (escalation(t="float32"), "malformed"),
    "another codec": (escalation(c="h264"), "malformed"),
    "a zstd bomb": (escalation(c="zstd", d=bomb(64 << 20)), "malformed"),
    "a zstd bomb that says so": (
        escalation(c="zstd", d=zstandard.ZstdCompressor().compress(bytes(64 << 20))), "malformed",
    ),
    "an unknown model": (escalation(m="nobody"), "unknown_model"),
    "an unknown dictionary": (escalation(c="grey4", dict="0123456789abcdef"), "unknown_dictionary"),
    "no time": (escalation(left=0), "too_late"),
}  # fmt: skip


def test_a_bad_escalation_is_refused_counted_and_logged_once(site: Site) -> None:
    malformed = 'hybridge_malformed_total{kind="envelope"}'
    before = site.cloud(malformed)
    codes = {code for _, code in REFUSED_MESSAGES.values()}
    refused = {code: site.cloud(f'hybridge_refused_total{{code="{code}"}}') for code in codes}
    with site.client("evil") as evil:
        evil.subscribe("hy/v1/evil/down/ans")
        for message in BAD_MESSAGES.values():
            evil.publish(EVIL, message)
        site.until(lambda: site.cloud(malformed) == before + len(BAD_MESSAGES))
        told = 5  # those whose id can be read
        for _ in range(told):
            assert msgpack.unpackb(evil.next().payload)["code"] == "malformed"
        for name, (message, code) in REFUSED_MESSAGES.items():
            evil.publish(EVIL, message)
            reply = msgpack.unpackb(evil.next().payload)
            assert (reply["k"], reply.get("code")) == ("refusal", code), name
            assert reply["id"] == msgpack.unpackb(message)["id"]
            assert reply["why"]
    for code, count in Counter(code for _, code in REFUSED_MESSAGES.values()).items():
        extra = told if code == "malformed" else 0
        now = site.cloud(f'hybridge_refused_total{{code="{code}"}}')
        assert now == refused[code] + count + extra, code
    lines = site.new_lines("cloud")
    assert [line["kind"] for line in lines if line["event"] == "delivery_refused"] == ["envelope"]
    said = [line["code"] for line in lines if line["event"] == "escalation_refused"]
    assert sorted(said) == sorted(codes)
    assert not [line for line in lines if "trace" in line]


def test_a_flood_of_garbage_holds_up_nobody(site: Site) -> None:
    """More of it than may be in hand at once, so that one place kept for ever would show."""
    received = site.cloud("hybridge_received_total")
    messages = list(BAD_MESSAGES.values())
    with site.client("evil") as evil:
        for n in range(FLOOD):
            message = messages[n % len(messages)]
            evil.paho.publish(EVIL, message if len(message) < 1000 else message[:1000], 1)
            evil.paho.publish(OURS, np.random.default_rng(n).bytes(40), 1)
        site.good()
        site.until(lambda: site.cloud("hybridge_received_total") >= received + FLOOD)
    site.until(lambda: site.ask("/v1/status", of="cloud").document["in_hand"] == 0)
    assert len(site.new_lines("agent")) + len(site.new_lines("cloud")) < 10


def test_a_topic_of_no_device_is_counted_and_logged_once(site: Site) -> None:
    with site.client("evil") as evil:
        for _ in range(3):
            evil.publish("hy/v1/no device!/up/esc", escalation())
    topic = 'hybridge_malformed_total{kind="topic"}'
    site.until(lambda: site.cloud(topic) == 3)
    kinds = [x["kind"] for x in site.new_lines("cloud") if x["event"] == "delivery_refused"]
    assert kinds == ["topic"]


def test_answers_that_are_not_ours_change_nothing(site: Site) -> None:
    before = Counter(site.counters())
    stranger = new_sample_id()
    even = np.full(3, 1 / 3, np.float32)
    unknown = [
        pack_downlink(CloudAnswer(stranger, "tiny-cloud", "1.0.0", even, 0.0, 0.0)),
        pack_downlink(Refusal(stranger, "malformed", "no", None)),
    ]
    malformed = [
        b"", b"\xc1", msgpack.packb({"v": 1, "k": "gossip"}), b"\x81\xa1a" * 20_000,
        pack_downlink(CloudAnswer(stranger, "m" * 99, "1", even, 0.0, 0.0)),
        pack_downlink(CloudAnswer(stranger, "m", "1", even - 1, 0.0, 0.0)),
    ]  # fmt: skip
    with site.client("evil") as evil:
        for message in unknown + malformed:
            evil.publish(OURS, message)
    site.until(
        lambda: (
            site.counters().get("malformed_downlink", 0)
            >= before["malformed_downlink"] + len(malformed)
        )
    )
    assert site.counters()["stray_answer"] == before["stray_answer"] + len(unknown)


def test_a_copy_of_an_answer_or_of_an_escalation_changes_nothing(site: Site) -> None:
    with site.client("ear") as ear:
        ear.subscribe("hy/v1/cam-1/up/esc")
        ear.subscribe("hy/v1/cam-1/down/ans")
        sample = site.sends(unsure_image(33))
        first = site.final(sample)
        heard = {m.topic: bytes(m.payload) for m in (ear.next(), ear.next())}
        rows = stored(site, sample)
        strays = site.counters().get("stray_answer", 0)
        copies = site.cloud("hybridge_duplicates_total")
        for topic, message in heard.items():
            for _ in range(3):
                ear.publish(topic, message)
    site.until(lambda: site.cloud("hybridge_duplicates_total") == copies + 3)
    site.until(lambda: site.counters().get("stray_answer", 0) == strays + 6)
    assert site.final(sample) == first
    assert stored(site, sample) == rows == 1


def stored(site: Site, sample: str) -> int:
    """The cloud's rows of a sample, once it has committed what it has in hand."""
    site.until(lambda: site.ask("/v1/status", of="cloud").document["in_hand"] == 0)
    with sqlite3.connect(site.folder / "cloud" / "feedback.db") as db:
        query = "SELECT count(*) FROM feedback WHERE sample_id = ?"
        (rows,) = db.execute(query, (sample.replace("-", ""),)).fetchone()
    return int(rows)


def speak(port: int, *said: bytes, patient: bool = True) -> bytes:
    """What a server answers, until it closes or hangs up; not `patient`: the first of it."""
    heard = b""
    with socket.create_connection(("127.0.0.1", port), 10) as raw:
        raw.settimeout(10)
        try:
            for part in said:
                raw.sendall(part)
            while part := raw.recv(65536):
                heard += part
                if not patient:
                    break
        except OSError:
            pass
    return heard
