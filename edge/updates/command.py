"""`hybridge-edge updates ...`: asks the running agent of this device, by its local API."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException

from pydantic import ValidationError

from edge import api_url
from edge.config import Config
from edge.updates.status import TargetStatus, UpdateStatus, VersionStatus
from shared.errors import Disconnected, HybridgeError, Malformed, Refused, Unavailable

_TIMEOUT_S = 120.0  # a rollback opens a model
_ANSWER_BYTES_MAX = 256 * 1024


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The agent sends nobody anywhere; what does is not the agent."""

    def redirect_request(self, *_: object) -> None:
        return None


# Proxies of the environment are for other machines: this asks the agent of this one.
_LOCAL = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


def ask(config: Config, action: str, body: Mapping[str, object]) -> UpdateStatus:
    """Raises `Refused` in the agent's words, `Disconnected` when none answers."""
    url = f"{api_url.read(config.state_dir)}/v1/updates"
    data = None
    if action != "status":
        url, data = f"{url}/{action}", json.dumps(body).encode()
    request = urllib.request.Request(url, data)  # noqa: S310  http, of this device
    try:
        with _LOCAL.open(request, timeout=_TIMEOUT_S) as answer:
            return UpdateStatus.model_validate_json(answer.read(_ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(error) from error
    except ValidationError as error:
        raise Malformed(
            f"{url}: answers what no agent does; does another program run there?"
        ) from error
    except (OSError, HTTPException) as error:
        raise Disconnected(f"{url}: {error}; does the agent run?") from error


def _refusal(error: urllib.error.HTTPError) -> HybridgeError:
    content = error.read(64 * 1024)
    try:
        why = str(json.loads(content)["detail"])
    except (ValueError, KeyError, TypeError):
        return Malformed(f"{error.url}: answered {error.code}; is that the agent?")
    return Refused(why) if error.code < 500 else Unavailable(why)


def words(status: UpdateStatus) -> str:
    """For people."""
    lines = [
        f"active     {_version(status.active)}",
        f"kept       {', '.join(map(_version, status.previous)) or 'none yet'}",
        f"phase      {status.phase}{f': {status.why}' if status.why else ''}",
    ]
    if status.follows:
        lines.append(f"fleet      {_asked(status.target)}")
    if status.candidate is not None:
        lines.append(f"candidate  {_version(status.candidate)}")
    if status.phase == "downloading" and status.total_bytes:
        share = status.done_bytes / status.total_bytes
        lines.append(
            f"download   {status.done_bytes:,} of {status.total_bytes:,} bytes ({share:.0%}), "
            f"{status.saved_bytes:,} of them not fetched"
        )
    if status.phase in ("staged", "trial"):
        lines.append(f"in shadow  {status.trial_samples} samples, {status.trial_skipped} skipped")
    if status.held_number is not None:
        until = "" if status.follows else f"until a release above number {status.held_number}; "
        lines.append(f"held       {until}`hybridge-edge updates resume` ends it")
    lines += [
        f"refused    {one.version} (release {one.number}): {one.why}" for one in status.refused
    ]
    if status.note:
        lines.append(f"now        {status.note}")
    return "\n".join(lines)


def _version(version: VersionStatus) -> str:
    number = f"release {version.number}" if version.number else "as set up"
    return f"{version.version} ({number})"


def _asked(target: TargetStatus | None) -> str:
    if target is None:
        return "has asked for nothing yet"
    way = "back to" if target.undo else f"{target.stage}:"
    return f"{way} {target.version} (generation {target.generation}, attempt {target.attempt})"
