"""`hybridge-edge updates ...`: asks the running agent of this device, by its local API."""

import json
from collections.abc import Mapping

from pydantic import ValidationError

from edge.config import Config
from edge.local_call import call, strange
from edge.updates.status import TargetStatus, UpdateStatus, VersionStatus


def ask(config: Config, action: str, body: Mapping[str, object]) -> UpdateStatus:
    """Raises as `edge.local_call.call` does."""
    path, data = "/v1/updates", None
    if action != "status":
        path, data = f"{path}/{action}", json.dumps(body).encode()
    try:
        return UpdateStatus.model_validate_json(call(config.state_dir, path, data))
    except ValidationError as error:
        raise strange(config.state_dir, path) from error


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
