import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.api.fast_lane.head import Head, Heads

HEAD = (
    b"POST /v2/models/cnn/infer HTTP/1.1\r\nHost: region\r\n"
    b"Content-Type: application/octet-stream\r\nInference-Header-Content-Length: 175\r\n"
    b"X-API-Key: hy_abc\r\nContent-Length: 3311\r\n\r\n"
)
READ = Head("cnn", None, 3311, 175, "175", None, "hy_abc", None, None)


def test_a_plain_head_is_read() -> None:
    assert Heads().read(HEAD) == READ


def test_the_same_bytes_are_read_once() -> None:
    heads = Heads()

    assert heads.read(HEAD) is heads.read(bytes(bytearray(HEAD)))


def test_a_version_a_bearer_and_a_trace_are_taken() -> None:
    head = HEAD.replace(b"/cnn/", b"/cnn/versions/1.2.0/").replace(
        b"X-API-Key: hy_abc",
        b"authorization: Bearer x.y.z\r\nX-Request-Id: r1\r\ntraceparent: 00-ab-cd-01",
    )

    assert Heads().read(head) == Head(
        "cnn", "1.2.0", 3311, 175, "175", "Bearer x.y.z", None, "r1", "00-ab-cd-01"
    )


def test_a_name_is_unquoted() -> None:
    read = Heads().read(HEAD.replace(b"cnn", b"a%20b"))

    assert read is not None
    assert read.model == "a b"


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (b"POST", b"GET"),
        (b"HTTP/1.1", b"HTTP/1.0"),
        (b"/infer", b"/infer?x=1"),
        (b"/infer", b"/ready"),
        (b"/v2/", b"/v2//"),
        (b"/v2/models", b"http://region/v2/models"),
        (b"Host: region", b"Transfer-Encoding: chunked"),
        (b"Host: region", b"Content-Encoding: gzip"),
        (b"Host: region", b"Expect: 100-continue"),
        (b"Host: region", b"Upgrade: h2c"),
        (b"Host: region", b"Connection: Upgrade\r\nUpgrade: h2c"),
        (b"Host: region", b"Origin: https://page"),
        (b"Host: region", b"Idempotency-Key: 1"),
        (b"Host: region", b"Connection: close"),
        (b"Host: region", b"Content-Length: 3311"),
        (b"Host: region", b"X-API-Key: hy_other"),
        (b"Host: region", b"Host : region"),
        (b"Host: region", b"Host: region\r\n folded"),
        (b"Host: region", b"no colon"),
        (b"hy_abc", b"hy_\xff"),
        (b"3311", b"+3311"),
        (b"3311", b"33 11"),
        (b"3311", b"-1"),
        (b"3311", b"0"),
        (b"3311", b"99999999999"),
        (b"Content-Length: 3311\r\n", b""),
        (b"\r\n", b"\n"),
    ],
)
def test_what_is_unusual_is_left_to_aiohttp(was: bytes, becomes: bytes) -> None:
    spoilt = HEAD.replace(was, becomes)

    assert spoilt != HEAD
    assert Heads().read(spoilt) is None


def test_what_is_kept_is_bounded() -> None:
    heads = Heads()
    for number in range(2000):
        heads.read(HEAD.replace(b"3311", str(number + 1).encode()))

    assert len(heads._kept) <= 512


@given(st.binary(max_size=200))
def test_no_bytes_raise(noise: bytes) -> None:
    Heads().read(noise + b"\r\n\r\n")
    Heads().read(HEAD[:-2] + noise + b"\r\n\r\n")


@given(st.binary(min_size=1, max_size=40), st.integers(0, len(HEAD) - 4))
def test_bytes_put_anywhere_raise_nothing_and_lie_about_no_length(noise: bytes, at: int) -> None:
    read = Heads().read(HEAD[:at] + noise + HEAD[at:])

    assert read is None or noise.isdigit() or read.length == READ.length
