"""One call to the running agent of this device, by its local API; for the commands."""

import json
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path

from edge import api_url
from shared.errors import Disconnected, HybridgeError, Malformed, Refused, Unavailable

_TIMEOUT_S = 120.0  # a rollback opens a model
_ANSWER_BYTES_MAX = 256 * 1024


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The agent sends nobody anywhere; what does is not the agent."""

    def redirect_request(self, *_: object) -> None:
        return None


# Proxies of the environment are for other machines: this asks the agent of this one.
_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


def call(state_dir: Path, path: str, body: bytes | None = None) -> bytes:
    """What it answers to `path` ("/v1/status"); POST where there is a body.

    Raises `Refused` and `Unavailable` in the agent's words, `Disconnected` when none answers,
    `Malformed` when it is not the agent that does.
    """
    url = api_url.read(state_dir) + path
    request = urllib.request.Request(url, body)  # noqa: S310  http, of this device
    try:
        with _LOCAL.open(request, timeout=_TIMEOUT_S) as answer:
            content: bytes = answer.read(_ANSWER_BYTES_MAX)
            return content
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(error) from error
    except (OSError, HTTPException) as error:
        raise Disconnected(f"{url}: {error}; does the agent run?") from error


def strange(state_dir: Path, path: str) -> Malformed:
    return Malformed(
        f"{api_url.read(state_dir)}{path}: answers what no agent does; does another program run there?"
    )


def _refusal(error: urllib.error.HTTPError) -> HybridgeError:
    content = error.read(64 * 1024)
    try:
        why = str(json.loads(content)["detail"])
    except (ValueError, KeyError, TypeError):
        return Malformed(f"{error.url}: answered {error.code}; is that the agent?")
    return Refused(why) if error.code < 500 else Unavailable(why)
