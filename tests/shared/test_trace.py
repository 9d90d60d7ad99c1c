"""The cases of W3C's own test suite (trace-context/test/test.py), and our request ids."""

import pytest

from shared.trace import Identity, Parent, identify, parse_traceparent

NOISE = bytes(range(1, 33))
TRACE, SPAN = "12345678901234567890123456789012", "1234567890123456"


@pytest.mark.parametrize(
    "text",
    [
        f"00-{TRACE}-{SPAN}-01",
        f"\t 00-{TRACE}-{SPAN}-01 \t",
        f"00-{TRACE}-{SPAN}-ff",  # flags of the future
        f"cc-{TRACE}-{SPAN}-01",  # a version of the future
        f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like",
        f"fe-{TRACE}-{SPAN}-01-",
    ],
)
def test_a_traceparent_that_fits_is_followed(text: str) -> None:
    assert parse_traceparent(text) == Parent(TRACE, SPAN, sampled=True)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        f"00-{TRACE}-{SPAN}-01.",
        f"00-{TRACE}-{SPAN}-01-what-the-future-will-be-like",
        f"cc-{TRACE}-{SPAN}-01.what-the-future-will-not-be-like",
        f"ff-{TRACE}-{SPAN}-01",
        f".0-{TRACE}-{SPAN}-01",
        f"0.-{TRACE}-{SPAN}-01",
        f"000-{TRACE}-{SPAN}-01",
        f"0000-{TRACE}-{SPAN}-01",
        f"0-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-.{TRACE[1:]}-{SPAN}-01",
        f"00-{TRACE[:-1]}.-{SPAN}-01",
        f"00-{TRACE}3-{SPAN}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-.{SPAN[1:]}-01",
        f"00-{TRACE}-{SPAN[:-1]}.-01",
        f"00-{TRACE}-{SPAN}7-01",
        f"00-{TRACE}-{SPAN[:-1]}-01",
        f"00-{TRACE}-{SPAN}-.0",
        f"00-{TRACE}-{SPAN}-0.",
        f"00-{TRACE}-{SPAN}-001",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE.replace('1', 'A')}-{SPAN}-01",  # upper case
        f"00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01",  # sent twice, joined
        f"00-{TRACE}-{SPAN}-01\n",
        f"00-{chr(0x661) * 32}-{SPAN}-01",
    ],
)
def test_any_other_is_ignored(text: str | None) -> None:
    assert parse_traceparent(text) is None


def test_a_request_is_a_child_of_its_caller() -> None:
    assert identify("abc", f"00-{TRACE}-{SPAN}-01", NOISE) == Identity(
        request_id="abc", trace_id=TRACE, span_id="191a1b1c1d1e1f20", parent_span_id=SPAN,
        sampled=True,
    )  # fmt: skip


def test_flags_that_nobody_knows_are_not_passed_on() -> None:
    sent = f"cc-{TRACE}-{SPAN}-fe-more"
    assert identify("abc", sent, NOISE).traceparent == f"00-{TRACE}-191a1b1c1d1e1f20-00"


def test_a_trace_begins_where_there_is_none() -> None:
    identity = identify(None, "nonsense", NOISE)
    assert (identity.parent_span_id, identity.sampled) == (None, False)
    assert parse_traceparent(identity.traceparent) == Parent(
        "090a0b0c0d0e0f101112131415161718", "191a1b1c1d1e1f20", sampled=False
    )


def test_no_id_is_all_zeros() -> None:
    identity = identify(None, None, bytes(32))
    assert parse_traceparent(identity.traceparent) is not None


@pytest.mark.parametrize("sent", ["a", "x" * 128, "!~", "7f3c-ÿ".replace("ÿ", "#")])
def test_an_id_of_the_callers_is_kept(sent: str) -> None:
    assert identify(sent, None, NOISE).headers["X-Request-Id"] == sent


@pytest.mark.parametrize(
    "sent", [None, "", "x" * 129, "a b", "a\r\nSet-Cookie: b", "é", "\x00", "\x7f"]
)
def test_any_other_id_is_replaced(sent: str | None) -> None:
    assert identify(sent, None, NOISE).request_id == "0102030405060708"
