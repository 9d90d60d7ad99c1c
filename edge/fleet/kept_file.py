"""`Kept` on disk: `state_dir/fleet.json`, replaced whole. Blocking."""

import hashlib
import json
import logging
from dataclasses import replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from edge.fleet.kept import Kept
from shared.disk import write_whole
from shared.errors import Malformed, Unavailable

log = logging.getLogger(__name__)

FORMAT = 1
SEQUENCES = 1000
"""Reports numbered between two writes."""
_NAME = "fleet.json"
_BYTES_MAX = 64 * 1024
_KEPT = TypeAdapter(Kept)


def save(state_dir: Path, kept: Kept) -> None:
    """Durable when this returns. Raises `NoRoom` or another `Unavailable`; the old one stays then."""
    body = _KEPT.dump_json(kept).decode()
    content = {"format": FORMAT, "sha256": _sha256(body), "kept": body}
    write_whole(state_dir / _NAME, json.dumps(content).encode())


def load(state_dir: Path, now: float) -> Kept:
    """What is on disk, or nothing where that cannot be believed: the region's retained messages
    bring it again. Numbers for reports begin above those of the process before; `now` in Unix
    seconds gives them a floor, so that a device whose disk was wiped goes on above what it said.
    """
    kept = _read(state_dir / _NAME)
    kept = replace(kept, sequence=max(kept.sequence, int(max(now, 0))) + SEQUENCES)
    try:
        save(state_dir, kept)
    except Unavailable as error:
        log.warning("fleet_state_not_written", extra={"why": str(error)[:300]})
    return kept


def more_numbers(kept: Kept) -> Kept:
    """With numbers for further reports."""
    return replace(kept, sequence=kept.sequence + SEQUENCES)


def _read(path: Path) -> Kept:
    try:
        with path.open("rb") as file:
            return _parsed(path, file.read(_BYTES_MAX + 1))
    except FileNotFoundError:
        return Kept()
    except (OSError, Malformed) as error:
        log.warning("fleet_state_unreadable", extra={"why": str(error)[:300]})
        return Kept()


def _parsed(path: Path, content: bytes) -> Kept:
    try:
        outer = json.loads(content) if len(content) <= _BYTES_MAX else None
        if not isinstance(outer, dict) or outer.get("format") != FORMAT:
            raise Malformed(f"{path}: is no fleet state of format {FORMAT}")
        body = str(outer.get("kept"))
        if _sha256(body) != outer.get("sha256"):
            raise Malformed(f"{path}: is damaged: its hash does not fit")
        return _KEPT.validate_json(body)
    except (ValueError, RecursionError, ValidationError) as error:
        raise Malformed(f"{path}: is damaged: {str(error)[:200]}") from error


def _sha256(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
