"""What any text or tree from outside may be, before it goes into the log. Pure.

The log is JSON, is shown on terminals and lies in databases of which one takes no NUL: so there
are no control characters but those of plain text, no halves of surrogate pairs, no number that
another parser would round, and no tree that a recursive one would not survive.
"""

import math
import re
from typing import Final

from pydantic import JsonValue

from shared.bundle.manifest import VERSION
from shared.errors import Malformed, TooLarge

DEPTH_MAX: Final = 16
NODES_MAX: Final = 20_000
ENTRY_BYTES_MAX: Final = 256 * 1024
"""Of one change in canonical JSON: a bundle of 256 files and long hyperparameters."""
_INT_MAX: Final = 2**63
_BAD: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_VERSION: Final = re.compile(VERSION)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_ID: Final = re.compile(r"[0-9a-f-]{36}")
_ROLE: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,79}")


def is_name(text: str) -> bool:
    """Of a model or a data set."""
    return _NAME.fullmatch(text) is not None


def is_version(text: str) -> bool:
    """Three numbers without leading zeros: 01.0.0 beside 1.0.0 would be two of one rank."""
    return _VERSION.fullmatch(text) is not None


def is_sha256(text: str) -> bool:
    return _SHA256.fullmatch(text) is not None


def is_id(text: str) -> bool:
    """Of an evaluation."""
    return _ID.fullmatch(text) is not None


def is_role(text: str) -> bool:
    """Of trust metadata: root, targets, snapshot, timestamp, or one that targets delegate to."""
    return _ROLE.fullmatch(text) is not None


def rank(version: str) -> int:
    """Rises with the version; below 2**63."""
    major, minor, patch = map(int, version.split("."))
    return (major * 10**6 + minor) * 10**6 + patch


def shown(text: str) -> str:
    """As messages may repeat it."""
    return repr(text[:80])


def checked_name(text: str, what: str) -> str:
    """Raises `Malformed`."""
    if not is_name(text):
        raise Malformed(
            f"{what} {shown(text)}: use 1 to 64 of a-z, 0-9 and '-', not beginning with '-'"
        )
    return text


def checked_version(text: str, what: str = "version") -> str:
    """Raises `Malformed`."""
    if not is_version(text):
        raise Malformed(
            f"{what} {shown(text)}: use three numbers below 1000000 without leading zeros, as 1.4.0"
        )
    return text


def check_actor(actor: str) -> None:
    """Raises `Malformed`."""
    if not 0 < len(actor) <= 200:
        raise Malformed(f"the caller's name has {len(actor)} characters; 1 to 200 are taken")
    _check_text(actor, "the caller's name")
    if {"\n", "\r", "\t"} & set(actor):
        raise Malformed(f"the caller's name {shown(actor)} is not one line")


def check_tree(value: JsonValue, what: str) -> None:
    """Raises `Malformed` for what the log does not take, `TooLarge` for what it takes less of.

    Without recursion: the tree may be as deep as its sender liked.
    """
    pending: list[tuple[JsonValue, int]] = [(value, 1)]
    nodes = 0
    while pending:
        node, depth = pending.pop()
        nodes += 1
        if nodes > NODES_MAX:
            raise TooLarge(f"{what} has more than {NODES_MAX} values; keep them in an artifact")
        if depth > DEPTH_MAX:
            raise TooLarge(f"{what} is nested over {DEPTH_MAX} deep; flatten it")
        match node:
            case str():
                _check_text(node, what)
            case bool() | None:
                pass
            case int():
                if not -_INT_MAX <= node < _INT_MAX:
                    raise Malformed(f"{what} has an integer of over 64 bits; write it as text")
            case float():
                if not math.isfinite(node):
                    raise Malformed(f"{what} has {node}, which JSON has not; leave it out")
            case list():
                pending += [(one, depth + 1) for one in node]
            case dict():
                for key in node:
                    _check_text(key, what)
                pending += [(one, depth + 1) for one in node.values()]


def _check_text(text: str, what: str) -> None:
    if found := _BAD.search(text):
        raise Malformed(
            f"{what} has the control character U+{ord(found[0]):04X} in {shown(text)}; remove it"
        )
