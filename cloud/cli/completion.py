"""Names for shell completion, from the registry that the line names: quickly, or none and no word.

Without the client and its libraries, which take longer to load than a person waits for a tab.
"""

import http.client
import json
import os
from typing import Final
from urllib.parse import quote, urlsplit

import typer

_TIMEOUT_S: Final = 0.7
_BYTES_MAX: Final = 4 * 1024 * 1024
_NAMES_MAX: Final = 200


def models(ctx: typer.Context, incomplete: str) -> list[str]:
    return _starting(incomplete, _members(ctx, "/v1/models", "models", "name"))


def versions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the model that stands before it; the newest first."""
    model = quote(str(ctx.params.get("name") or ""), safe="")
    found = _members(ctx, f"/v1/models/{model}/versions", "versions", "version")
    return _starting(incomplete, found[::-1])


def data_sets(ctx: typer.Context, incomplete: str) -> list[str]:
    return _starting(incomplete, _members(ctx, "/v1/data-sets", "data_sets", "name"))


def _starting(incomplete: str, names: list[str]) -> list[str]:
    fitting = dict.fromkeys(name for name in names if name.startswith(incomplete))
    return list(fitting)[:_NAMES_MAX]


def _members(ctx: typer.Context, path: str, members: str, member: str) -> list[str]:
    try:
        tree = json.loads(_get(ctx, path))
        return [name for one in tree[members] if (name := str(one[member])).isprintable()]
    except Exception:  # noqa: BLE001  whatever is wrong: no names, and the line stays as it is
        return []


def _get(ctx: typer.Context, path: str) -> bytes:
    from cloud.cli.api_key import read_key

    urls = ctx.params.get("registry") or os.environ.get("HYBRIDGE_REGISTRY", "").split()
    parts = urlsplit(urls[0])
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        key = read_key(ctx.params.get("key_file"))
        headers = {} if key is None else {"X-API-Key": key}
        connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
        return connection.getresponse().read(_BYTES_MAX)
    finally:
        connection.close()
