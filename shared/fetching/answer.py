"""What an HTTP answer to a request for a range means. Pure: status and headers in, decision out."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal

from shared.errors import (
    Disconnected,
    Forbidden,
    HybridgeError,
    NotTrusted,
    Overloaded,
    Unavailable,
    Unknown,
)

_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,15})-([0-9]{1,15})/([0-9]{1,15}|\*)")
_NUMBER = re.compile(r"[0-9]{1,15}")
_RETRY_S_MAX = 3600.0  # a server that asks for more is asked again all the same
_ETAG = re.compile(r'"[\x21\x23-\x7e]{1,200}"')  # strong ones only: If-Range takes no others


@dataclass(frozen=True, slots=True)
class Body:
    """Take the body, its first byte at `offset` of the file."""

    offset: int
    etag: str | None


@dataclass(frozen=True, slots=True)
class Restart:
    """What is here already does not fit what is there: begin again at 0."""

    why: str


def understand(
    status: int, headers: Mapping[str, str], *, offset: int, size: int, where: str
) -> Body | Restart:
    """Decide what to do with an answer to `Range: bytes={offset}-` (no Range at offset 0).

    Raises what `refusal` gives, and `NotTrusted` for a body that cannot be the file of `size`
    bytes.
    """
    if status == 416 and offset:
        return Restart("the server has no such range")
    if status not in (200, 206):
        raise refusal(status, headers, where)
    coding = headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("identity", ""):
        raise NotTrusted(
            f"{where}: came as {coding[:40]!r}, though it was asked for as it is; fix the server or "
            "the proxy before it"
        )
    if status == 206:
        kind: Literal["range", "whole"] = "range"
        found = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
        if found is None or int(found[1]) != offset or int(found[2]) != size - 1:
            return _misfit(offset, f"{where}: the server sent another range than was asked for")
        if found[3] not in ("*", str(size)):
            return _misfit(offset, f"{where}: has {found[3]} bytes there, {size} were expected")
    else:
        kind = "whole"
    begins = offset if kind == "range" else 0
    stated = headers.get("Content-Length", "")
    if stated and (not _NUMBER.fullmatch(stated) or int(stated) != size - begins):
        raise NotTrusted(
            f"{where}: the server announces {stated[:20]} bytes, {size - begins} were expected; "
            "it is not the file that was asked for"
        )
    etag = headers.get("ETag", "")
    return Body(begins, etag if _ETAG.fullmatch(etag) else None)


def refusal(status: int, headers: Mapping[str, str], where: str) -> HybridgeError:
    """The error for a status that is neither 200 nor 206."""
    match status:
        case 401 | 403:
            return Forbidden(f"{where}: the server answers {status}; check the API key's role")
        case 404 | 410:
            return Unknown(f"{where}: is not there ({status})")
        case 429 | 503:
            return Overloaded(
                f"{where}: the server is busy ({status})", retry_after_s(headers.get("Retry-After"))
            )
        case _ if 300 <= status < 400:
            return Unavailable(f"{where}: leads elsewhere ({status}); name the final URL")
        case _:
            return Disconnected(f"{where}: the server answers {status}")


def retry_after_s(text: str | None) -> float | None:
    """Seconds of a Retry-After header (RFC 9110, 10.2.3); a date counts as "not now" alone: this
    machine's clock may be wrong by a day.
    """
    if text is None:
        return None
    if _NUMBER.fullmatch(text.strip()):
        return min(float(text), _RETRY_S_MAX)
    try:
        parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    return 1.0


def _misfit(offset: int, why: str) -> Restart:
    if offset:
        return Restart(why)
    raise NotTrusted(why)
