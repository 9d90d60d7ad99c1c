"""The state on disk: one small file, replaced whole, with the one before beside it. Blocking.

A flipped bit is found by the file's own hash; the copy before it is read then, and without that the
device starts from its factory bundle.
"""

import hashlib
import json
import logging
import os
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from edge.updates.state import State
from shared.disk import sync_folder, writing
from shared.errors import Malformed

log = logging.getLogger(__name__)

FORMAT = 1
_NAME = "state.json"
_BEFORE = "state.before.json"
_BYTES_MAX = 256 * 1024
_STATE = TypeAdapter(State)


def save(folder: Path, state: State) -> None:
    """Durable when this returns; after a crash the file is the old or the new one.

    Raises `NoRoom` on a full disk, `Unavailable` when it cannot be written; the old one stays.
    """
    body = _STATE.dump_json(state).decode("ascii", "backslashreplace")
    content = json.dumps(
        {"format": FORMAT, "sha256": hashlib.sha256(body.encode()).hexdigest(), "state": body}
    ).encode()
    target, fresh = folder / _NAME, folder / f"{_NAME}.new"
    with writing(target):
        folder.mkdir(parents=True, exist_ok=True)
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            kept = folder / f"{_BEFORE}.new"
            kept.unlink(missing_ok=True)
            kept.hardlink_to(target)
            kept.replace(folder / _BEFORE)
        fresh.replace(target)
    sync_folder(folder)


def load(folder: Path) -> State | None:
    """None when there is none that can be believed; damage is logged."""
    for name in (_NAME, _BEFORE):
        try:
            return _parsed(folder / name)
        except FileNotFoundError:
            continue
        except (OSError, Malformed) as error:
            log.warning("update_state_unreadable", extra={"why": str(error)[:300]})
    return None


def _parsed(path: Path) -> State:
    with path.open("rb") as file:
        content = file.read(_BYTES_MAX + 1)
    try:
        outer = json.loads(content) if len(content) <= _BYTES_MAX else None
        if not isinstance(outer, dict) or outer.get("format") != FORMAT:
            raise Malformed(f"{path}: is no update state of format {FORMAT}")
        body = str(outer.get("state"))
        if hashlib.sha256(body.encode()).hexdigest() != outer.get("sha256"):
            raise Malformed(f"{path}: is damaged: its hash does not fit")
        return _STATE.validate_json(body)
    except (ValueError, RecursionError, ValidationError) as error:
        raise Malformed(f"{path}: is damaged: {str(error)[:200]}") from error
