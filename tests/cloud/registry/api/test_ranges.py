"""Which bytes a GET wants, against RFC 9110 and against slices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cloud.registry.api.ranges import Part, part_of

ETAG = '"e"'


def asked(total: int = 10, **headers: str) -> tuple[int, int, int]:
    part = part_of({name.replace("_", "-"): text for name, text in headers.items()}, ETAG, total)
    return part.status.value, part.start, part.end


@pytest.mark.parametrize(
    ("range_", "expected"),
    [
        ("bytes=0-0", (206, 0, 1)),
        ("bytes=2-5", (206, 2, 6)),
        ("bytes=2-", (206, 2, 10)),
        ("bytes=2-99", (206, 2, 10)),
        ("bytes=-3", (206, 7, 10)),
        ("bytes=-99", (206, 0, 10)),
        ("bytes=9-9", (206, 9, 10)),
        ("bytes=10-", (416, 0, 0)),
        ("bytes=-0", (416, 0, 0)),
        ("bytes=5-2", (200, 0, 10)),  # no valid range: as if it were not there
        ("bytes=-", (200, 0, 10)),
        ("bytes=0-1,4-5", (200, 0, 10)),
        ("lines=0-1", (200, 0, 10)),
        ("bytes=0-1x", (200, 0, 10)),
        ("bytes=" + "9" * 5000 + "-", (200, 0, 10)),
    ],
)
def test_a_range(range_: str, expected: tuple[int, int, int]) -> None:
    assert asked(Range=range_) == expected


def test_no_range_of_nothing() -> None:
    assert asked(total=0, Range="bytes=0-") == (416, 0, 0)
    assert asked(total=0) == (200, 0, 0)


def test_a_range_of_another_content_is_the_whole() -> None:
    assert asked(Range="bytes=2-5", If_Range=ETAG) == (206, 2, 6)
    assert asked(Range="bytes=2-5", If_Range='"other"') == (200, 0, 10)


@pytest.mark.parametrize("named", [ETAG, f'"a", {ETAG}', f"W/{ETAG}", "*"])
def test_what_the_client_has_is_not_sent(named: str) -> None:
    assert asked(If_None_Match=named, Range="bytes=2-5") == (304, 0, 0)


def test_what_it_has_not_is_sent() -> None:
    assert asked(If_None_Match='"a"') == (200, 0, 10)


def test_the_headers_say_where() -> None:
    assert part_of({"Range": "bytes=2-5"}, ETAG, 10).headers == {"Content-Range": "bytes 2-5/10"}
    assert part_of({"Range": "bytes=10-"}, ETAG, 10).headers == {"Content-Range": "bytes */10"}
    assert part_of({}, ETAG, 10).headers == {}


@given(st.integers(0, 50), st.integers(0, 60), st.integers(0, 60))
def test_it_is_the_slice(total: int, first: int, last: int) -> None:
    content = bytes(range(total))
    part = part_of({"Range": f"bytes={first}-{last}"}, ETAG, total)
    if part.status == 206:
        assert content[part.start : part.end] == content[first : last + 1] != b""
    elif part.status == 416:
        assert not content[first : last + 1]
    else:
        assert last < first
        assert part == Part(part.status, 0, total, total)


@given(st.text(max_size=40))
def test_any_text_gives_a_part_within_the_file(text: str) -> None:
    part = part_of({"Range": text, "If-Range": text, "If-None-Match": text}, ETAG, 7)
    assert 0 <= part.start <= part.end <= 7
