import json
from http import HTTPStatus

import pytest

from cloud.api.problems import TABLE, Unverified, http_problem, problem_of
from cloud.gateway.refusals import RateLimited
from cloud.registry.client.answers import (
    Answer,
    OtherAnswers,
    UnknownCaller,
    error_of,
    parsed,
    plain,
    refusal_of,
)
from shared.errors import (
    Conflict,
    Forbidden,
    HybridgeError,
    Malformed,
    NotTrusted,
    Overloaded,
    Refused,
    Unavailable,
    Unknown,
)


def answer(status: int, body: bytes = b"", **headers: str) -> Answer:
    return Answer(status, headers, body)


@pytest.mark.parametrize(
    "kind", [kind for kind in TABLE if kind is not RateLimited], ids=lambda kind: kind.__name__
)
def test_every_error_comes_back_as_what_it_was(kind: type[HybridgeError]) -> None:
    sent = problem_of(kind("fashion-edge: what, where, what to do"))
    found = error_of(answer(sent.status, sent.body("1")), "http://here/v1")
    assert type(found) is kind
    assert str(found) == "fashion-edge: what, where, what to do"


def test_a_retry_after_survives_the_way() -> None:
    sent = problem_of(Overloaded("full", 7.5))
    found = error_of(answer(sent.status, sent.body("1")), "x")
    assert isinstance(found, Unavailable)
    assert found.retry_after_s == 7.5


def test_rate_limited_is_overloaded_here() -> None:
    status, kind = TABLE[RateLimited]
    body = json.dumps({"type": f"urn:hybridge:problem:{kind}", "detail": "10/second"}).encode()
    assert type(error_of(answer(status, body), "x")) is Overloaded


def test_what_a_proxy_answers_goes_by_its_status() -> None:
    found = error_of(answer(502, b"<html>\x1b[31mBad\ngateway"), "http://here/v1/models")
    assert type(found) is Unavailable
    assert str(found) == "http://here/v1/models: HTTP status 502: <html>?[31mBad gateway"
    assert type(error_of(answer(404, b"none"), "x")) is Unknown
    assert type(error_of(answer(409), "x")) is Conflict
    assert type(error_of(answer(418), "x")) is Refused
    later = error_of(answer(503, b"", **{"retry-after": "4"}), "x")
    assert isinstance(later, Unavailable)
    assert later.retry_after_s == 4.0


def test_unauthorized_without_words_says_how_to_give_a_key() -> None:
    found = error_of(answer(HTTPStatus.UNAUTHORIZED), "http://here")
    assert type(found) is NotTrusted
    assert "--key-file or HYBRIDGE_API_KEY" in str(found)


@pytest.mark.parametrize("after", ["soon", "-1", "nan", "inf", ""])
def test_a_retry_after_that_is_no_time_is_none(after: str) -> None:
    found = error_of(answer(503, b"", **{"retry-after": after}), "x")
    assert isinstance(found, Unavailable)
    assert found.retry_after_s is None


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff", b'"text"'])
def test_a_body_that_is_no_document_is_words_at_most(body: bytes) -> None:
    assert len(str(error_of(answer(400, body), "x"))) < 400


def test_a_message_from_outside_is_one_bounded_line() -> None:
    detail = "one\ntwo \x1b]0;owned\x07 \u202e" + "x" * 10_000
    body = json.dumps({"type": "urn:hybridge:problem:conflict", "detail": detail}).encode()
    found = str(error_of(answer(409, body), "x"))
    assert len(found) == 2000
    assert found.startswith("one two ?]0;owned? ?xxx")
    assert plain("a\tb\r\nc") == "a b c"


def test_an_answer_that_is_not_json_is_refused() -> None:
    with pytest.raises(Malformed, match="is a registry there"):
        parsed(answer(200, b"<html>"), "http://here")


def test_a_caller_who_is_not_known_is_told_from_what_does_not_check_out() -> None:
    for kind, seen in ((NotTrusted, UnknownCaller), (Unverified, Unverified)):
        sent = problem_of(kind("the key, or a hash"))
        found = refusal_of(answer(sent.status, sent.body("1")), "x")
        assert (type(found), str(found)) == (seen, "the key, or a hash")


@pytest.mark.parametrize("status", [302, 400, 404, 405, 409])
def test_a_page_of_somebody_else_is_told_from_a_refusal(status: int) -> None:
    for page in (b"<html>Not here</html>", b'{"detail": "Not Found"}'):
        assert type(refusal_of(answer(status, page), "x")) is OtherAnswers
    with pytest.raises(OtherAnswers):
        parsed(answer(200, b"<html>"), "x")


def test_what_the_api_refuses_stays_so() -> None:
    for sent in (problem_of(Unknown("none")), http_problem(HTTPStatus.NOT_FOUND, "no such path")):
        assert type(refusal_of(answer(sent.status, sent.body("1")), "x")) is Unknown
    assert type(refusal_of(answer(404), "x")) is Unknown  # to HEAD
    assert type(refusal_of(answer(403, b"<html>"), "x")) is Forbidden
    assert type(refusal_of(answer(502, b"<html>"), "x")) is Unavailable
