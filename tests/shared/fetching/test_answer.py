import pytest

from shared.errors import Disconnected, NotTrusted, Unavailable
from shared.fetching.answer import Body, Restart, refusal, understand


def test_a_range_that_fits_is_taken() -> None:
    headers = {"Content-Range": "bytes 10-99/100", "Content-Length": "90", "ETag": '"a"'}
    assert understand(206, headers, offset=10, size=100, where="f") == Body(10, '"a"')


@pytest.mark.parametrize(
    "content_range",
    ["bytes 9-99/100", "bytes 10-98/100", "bytes 10-99/101", "bytes */100", "bytes 10-/100", ""],
)
def test_a_range_that_does_not_fit_starts_anew(content_range: str) -> None:
    decided = understand(206, {"Content-Range": content_range}, offset=10, size=100, where="f")
    assert isinstance(decided, Restart)


def test_a_range_that_nobody_asked_for_is_refused() -> None:
    with pytest.raises(NotTrusted, match="another range"):
        understand(206, {"Content-Range": "bytes 1-99/100"}, offset=0, size=100, where="f")


@pytest.mark.parametrize("etag", ['W/"a"', "a", '"' + "a" * 300 + '"', '"a\r\nX: y"', '"ü"'])
def test_an_etag_that_if_range_does_not_take_is_forgotten(etag: str) -> None:
    assert understand(200, {"ETag": etag}, offset=0, size=5, where="f") == Body(0, None)


@pytest.mark.parametrize("length", ["4", "6", "-5", "5.0", "5" * 30, "\u0665"])
def test_a_length_that_is_not_the_files_is_refused(length: str) -> None:
    with pytest.raises(NotTrusted, match="announces"):
        understand(200, {"Content-Length": length}, offset=0, size=5, where="f")


@pytest.mark.parametrize(
    "after", ["Wed, 21 Oct 2099 07:28:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT"]
)
def test_a_date_to_come_back_at_is_not_held_against_a_clock_that_may_be_wrong(after: str) -> None:
    error = refusal(503, {"Retry-After": after}, "f")
    assert isinstance(error, Unavailable)
    assert error.retry_after_s == 1.0


def test_an_unknown_status_may_pass() -> None:
    assert isinstance(refusal(418, {}, "f"), Disconnected)
