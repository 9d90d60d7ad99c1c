"""GET from a worker's API, within a time and a size."""

import http.client
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from shared.api_key import key_header
from shared.errors import Disconnected, Forbidden, Malformed, NotTrusted, Unavailable, Unknown

_TIMEOUT_S: Final = 10.0
_BYTES_MAX: Final = 8 * 1024 * 1024


def get(url: str, path: str, key: str | None) -> bytes:
    """`url` is `http(s)://host:port`. Raises `Malformed`, `Disconnected`, or what its status means."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise Malformed(f"{url[:200]!r}: {error}; write it as http://host:port") from error
    if parts.scheme not in ("http", "https") or not host:
        raise Malformed(f"{url[:200]!r}: write it as http://host:port")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", parts.path.rstrip("/") + path, headers=key_header(key))
        answer = connection.getresponse()
        body = answer.read(_BYTES_MAX + 1)
    except (OSError, http.client.HTTPException) as error:
        raise Disconnected(f"{url}: {error or type(error).__name__}; is a worker there?") from error
    finally:
        connection.close()
    _check(answer.status, f"{url}{path}", body)
    if len(body) > _BYTES_MAX:
        raise Malformed(f"{url}{path}: its answer is over {_BYTES_MAX} bytes")
    return body


def _check(status: int, where: str, body: bytes) -> None:
    match status:
        case HTTPStatus.OK:
            return
        case HTTPStatus.UNAUTHORIZED:
            raise NotTrusted(f"{where}: wants an API key; give --key-file or HYBRIDGE_API_KEY")
        case HTTPStatus.FORBIDDEN:
            raise Forbidden(f"{where}: this API key may not; it needs another role")
        case HTTPStatus.NOT_FOUND:
            raise Unknown(f"{where}: the server knows no such thing")
        case _:
            words = " ".join(body[:300].decode("utf-8", "replace").split())
            raise Unavailable(f"{where}: HTTP status {status}: {words}")
