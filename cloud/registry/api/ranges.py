"""Which bytes of an artifact a GET wants: Range, If-Range and If-None-Match (RFC 9110). Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

_RANGE = re.compile(r"bytes=([0-9]{0,15})-([0-9]{0,15})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Part:
    """`status` with the bytes from `start` up to, not including, `end` of `total`; with 304 and 416
    there are none.
    """

    status: HTTPStatus
    start: int
    end: int
    total: int

    @property
    def headers(self) -> dict[str, str]:
        """What is special to this status."""
        match self.status:
            case HTTPStatus.PARTIAL_CONTENT:
                return {"Content-Range": f"bytes {self.start}-{self.end - 1}/{self.total}"}
            case HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return {"Content-Range": f"bytes */{self.total}"}
            case _:
                return {}


def part_of(headers: Mapping[str, str], etag: str, total: int) -> Part:
    """Several ranges at once, and what is no range of bytes, are answered with the whole: a server
    may do that (RFC 9110, 14.2), and nobody here asks for them.

    `etag` as it stands in the header, with its quotes.
    """
    if _names(headers.get("If-None-Match"), etag):
        return Part(HTTPStatus.NOT_MODIFIED, 0, 0, total)
    found = _RANGE.fullmatch(headers.get("Range", "").strip())
    if found is None or headers.get("If-Range", etag).strip() != etag:
        return Part(HTTPStatus.OK, 0, total, total)
    first, last = found.groups()
    if first:
        start, end = int(first), min(int(last) + 1 if last else total, total)
        if last and int(last) < int(first):
            return Part(HTTPStatus.OK, 0, total, total)  # no valid range, so none
    elif last:
        start, end = max(0, total - int(last)), total
    else:
        return Part(HTTPStatus.OK, 0, total, total)
    if start >= end:
        return Part(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, 0, 0, total)
    return Part(HTTPStatus.PARTIAL_CONTENT, start, end, total)


def _names(if_none_match: str | None, etag: str) -> bool:
    if if_none_match is None:
        return False
    named = [one.strip().removeprefix("W/") for one in if_none_match.split(",")]
    return "*" in named or etag in named
