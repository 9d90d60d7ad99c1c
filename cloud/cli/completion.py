"""Names for shell completion, from the registry that the line names (`fleet_completion.py`: from the
fleet): quickly, or none and no word.

Without the client and its libraries, which take longer to load than a person waits for a tab.
"""

import http.client
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit

import typer

_TIMEOUT_S: Final = 0.7  # of each step
_SECONDS_MAX: Final = 1.5  # of all of them, however slowly they go
_BYTES_MAX: Final = 4 * 1024 * 1024
_NAMES_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Place:
    """Where a line says whom to ask: an option's name, and the environment's for URLs and a key."""

    option: str
    urls: str
    key: str | None = None


REGISTRY: Final = Place("registry", "HYBRIDGE_REGISTRY")


def models(ctx: typer.Context, incomplete: str) -> list[str]:
    return starting(incomplete, members(ctx, "/v1/models", "models", "name"))


def versions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of the model that stands before it; the newest first."""
    return _versions(ctx, incomplete, str(ctx.params.get("name") or ""))


def parents(ctx: typer.Context, incomplete: str) -> list[str]:
    """Versions of the model whose bundle's folder stands before it."""
    try:
        # the option at the end still lacks its value, so the arguments before it lie unparsed
        bundle = Path(str(ctx.params.get("path") or ctx.args[0]))
        manifest = json.loads((bundle / "manifest.json").read_bytes())
        return _versions(ctx, incomplete, str(manifest["name"]))
    except Exception:  # noqa: BLE001  as below
        return []


def _versions(ctx: typer.Context, incomplete: str, name: str) -> list[str]:
    model = quote(name, safe="")
    found = members(ctx, f"/v1/models/{model}/versions", "versions", "version")
    return starting(incomplete, found[::-1])


def data_sets(ctx: typer.Context, incomplete: str) -> list[str]:
    return starting(incomplete, members(ctx, "/v1/data-sets", "data_sets", "name"))


def starting(incomplete: str, names: list[str]) -> list[str]:
    fitting = dict.fromkeys(name for name in names if name.startswith(incomplete))
    return list(fitting)[:_NAMES_MAX]


def members(
    ctx: typer.Context,
    path: str,
    several: str,
    member: str,
    place: Place = REGISTRY,
    inside: str | None = None,
) -> list[str]:
    """A member of each of several in an answer, or of what each has `inside`; whatever is wrong:
    none.
    """
    try:
        with _within(_SECONDS_MAX):
            tree = json.loads(_get(ctx, path, place))
        found = [one if inside is None else one[inside] for one in tree[several]]
        return [name for one in found if (name := str(one[member])).isprintable()]
    except Exception:  # noqa: BLE001  whatever is wrong: no names, and the line stays as it is
        return []


def _get(ctx: typer.Context, path: str, place: Place) -> bytes:
    from cloud.cli.api_key import read_key

    urls = ctx.params.get(place.option) or os.environ.get(place.urls, "").split()
    parts = urlsplit(urls[0])
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        file = ctx.params.get("key_file")
        own = os.environ.get(place.key, "").strip() if place.key and not file else ""
        key = own or read_key(file)
        headers = {} if key is None else {"X-API-Key": key}
        connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
        return connection.getresponse().read(_BYTES_MAX)
    finally:
        connection.close()


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raises `TimeoutError` after so long; where there is no such timer, each step has its own."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
