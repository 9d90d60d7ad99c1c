"""A request's head: is it one for the fast lane, and what does it say? Pure.

A client sends the same head with each request, so the answer is kept by the head's bytes: the
parser (httptools, the one of Node.js) then runs once for each client and not for each request.
"""

import re
from dataclasses import dataclass, replace
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

HEAD_BYTES_MAX = 8 * 1024
_KEPT_MAX = 512  # heads; a client whose heads all differ must not fill memory

_INFER = re.compile(rb"/v2/models/([^/?#]+)(?:/versions/([^/?#]+))?/infer")
_UNUSUAL = frozenset({
    b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"origin", b"sec-fetch-site",
    b"idempotency-key",
})  # fmt: skip
_TAKEN = {
    b"content-length": "length",
    b"inference-header-content-length": "header_length",
    b"authorization": "authorization",
    b"x-api-key": "api_key",
    b"x-request-id": "request_id",
    b"traceparent": "traceparent",
    b"hybridge-unit": "unit",
}
_LENGTH = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class Head:
    """What `POST .../infer` said before its body."""

    model: str
    version: str | None
    length: int  # bytes of body that follow
    json_bytes: int  # of those, how many are JSON; all, where `header_length` is none or nonsense
    header_length: str | None
    authorization: str | None
    api_key: str | None
    request_id: str | None
    traceparent: str | None
    unit: str | None = None
    """Of experiments: the user or device for whom the call is."""


class Heads:
    """`read(head)` gives a `Head`, or None for a request that aiohttp shall take."""

    def __init__(self) -> None:
        self._kept: dict[bytes, Head | None] = {}

    def read(self, head: bytes) -> Head | None:
        """`head` ends with the empty line."""
        try:
            return self._kept[head]
        except KeyError:
            pass
        if len(self._kept) >= _KEPT_MAX:
            self._kept.clear()
        found = self._kept[head] = _Reading().of(head)
        return found


class _Reading:
    """One pass of httptools over one head; its callbacks are methods by its own convention."""

    def __init__(self) -> None:
        self._url = b""
        self._fields: dict[str, str] = {}
        self._usual = True
        self._heads = 0
        self._body_or_end = False

    def of(self, head: bytes) -> Head | None:
        parser = HttpRequestParser(self)
        try:
            parser.feed_data(head)
        except (HttpParserError, HttpParserUpgrade):  # the latter is no kind of the former
            return (
                None  # aiohttp refuses it in its own words, or answers as if not asked to upgrade
            )
        usual = self._usual and self._heads == 1 and not self._body_or_end
        if not usual or parser.get_method() != b"POST" or parser.get_http_version() != "1.1":
            return None
        if not parser.should_keep_alive():
            return None
        route = _INFER.fullmatch(self._url)
        length = self._fields.pop("length", "")
        if route is None or not _LENGTH.fullmatch(length) or int(length) == 0:
            return None
        model, version = route[1].decode("ascii", "replace"), route[2]
        return replace(
            _NOTHING, model=unquote(model), length=int(length),
            version=None if version is None else unquote(version.decode("ascii", "replace")),
            json_bytes=_json_bytes(self._fields.get("header_length"), int(length)),
            **self._fields,
        )  # fmt: skip

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _UNUSUAL:
            self._usual = False
        elif (field := _TAKEN.get(name)) is not None:
            if field in self._fields or not value.isascii():
                self._usual = False  # said twice: aiohttp decides
            self._fields[field] = value.decode("ascii", "replace")

    def on_headers_complete(self) -> None:
        self._heads += 1

    def on_body(self, _: bytes) -> None:
        self._body_or_end = True

    def on_message_complete(self) -> None:
        self._body_or_end = True


def _json_bytes(header_length: str | None, length: int) -> int:
    if header_length is None or not _LENGTH.fullmatch(header_length):
        return length
    return min(int(header_length), length)


_NOTHING = Head("", None, 0, 0, None, None, None, None, None)
