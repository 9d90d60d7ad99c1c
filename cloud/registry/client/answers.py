"""What a registry's answer means: the other side of `cloud/api/problems.py`. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from cloud.api.problems import TABLE
from cloud.gateway.refusals import RateLimited
from shared.errors import (
    Conflict,
    Forbidden,
    HybridgeError,
    Malformed,
    NotTrusted,
    Overloaded,
    Refused,
    Unavailable,
)

_TYPE: Final = "urn:hybridge:problem:"
_WORDS_MAX: Final = 2000  # characters of a message from outside
_CLASSES: Final[Mapping[str, type[HybridgeError]]] = {
    **{kind: error for error, (_, kind) in TABLE.items()},
    TABLE[RateLimited][1]: Overloaded,  # the other one carries what only a gateway knows
}
_BY_STATUS: Final[Mapping[int, type[HybridgeError]]] = {
    **{status: error for error, (status, _) in reversed(TABLE.items())},
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.SERVICE_UNAVAILABLE: Unavailable,
}
"""For answers without a kind, as proxies give them."""


class UnknownCaller(NotTrusted):
    """HTTP status 401: the other end does not know the key or certificate of who asks. What was sent or
    read is not meant.
    """


class OtherAnswers(Malformed):
    """A page of somebody else, who is in the API's place: a proxy while it is deployed anew, or another
    program.
    """


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; the names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def error_of(answer: Answer, where: str) -> HybridgeError:
    """What an answer of 400 and above means, in the words that the registry gave it."""
    document = _document(answer.body)
    kind = str(document.get("type", "")).removeprefix(_TYPE)
    said = document.get("detail")
    words = plain(said) if isinstance(said, str) and said else ""
    if answer.status == HTTPStatus.UNAUTHORIZED and not words:
        words = f"{where}: wants an API key; give --key-file or HYBRIDGE_API_KEY"
    words = words or f"{where}: HTTP status {answer.status}: {plain(_text(answer.body))[:300]}"
    error = _CLASSES.get(kind) or _BY_STATUS.get(answer.status)
    if error is None:
        error = Unavailable if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR else Refused
    if issubclass(error, Unavailable):
        return error(words, retry_after_s(answer, document))
    return error(words)


def refusal_of(answer: Answer, where: str) -> HybridgeError:
    """As `error_of`, but that `UnknownCaller` and `OtherAnswers` are told from what is refused there."""
    found = error_of(answer, where)
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return UnknownCaller(str(found))
    is_the_apis = str(_document(answer.body).get("type", "")).startswith(_TYPE)
    if is_the_apis or not answer.body or isinstance(found, Unavailable | Forbidden):
        return found  # without a body: as HEAD is answered
    return OtherAnswers(str(found))


def retry_after_s(answer: Answer, document: Mapping[str, object]) -> float | None:
    """In how many seconds the registry wants to be asked again; None where it does not say."""
    for found in (document.get("retry_after_s"), answer.headers.get("retry-after")):
        try:
            seconds = float(found)  # type: ignore[arg-type]  # whatever the other end wrote
        except (TypeError, ValueError):
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    return None


def parsed(answer: Answer, where: str, what: str = "registry") -> object:
    """The JSON of an answer. Raises `OtherAnswers`."""
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError) as error:
        raise OtherAnswers(f"{where}: its answer is not JSON; is a {what} there?") from error


def plain(text: str) -> str:
    """One line without control characters, bounded: what others wrote moves no terminal's cursor."""
    line = " ".join(text[: 2 * _WORDS_MAX].split())
    return "".join(c if c.isprintable() else "?" for c in line)[:_WORDS_MAX]


def _document(body: bytes) -> Mapping[str, object]:
    try:
        found = json.loads(body[: 64 * 1024])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(body: bytes) -> str:
    return body[: 2 * _WORDS_MAX].decode("utf-8", "replace")
