"""What a path may hold, checked before any handler sees it. Pure.

Every placeholder of every route has its rule here, as in `cloud/registry/api/checked.py`.
"""

import re
from collections.abc import Mapping
from typing import Final

from cloud.registry.api.checked import shown
from shared.errors import Malformed

_NAME: Final = r"[a-z0-9][a-z0-9-]{0,63}"
_PLACEHOLDERS: Final[Mapping[str, tuple[str, str]]] = {
    "device": (
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
        "1 to 64 of letters, digits, '_', '.' and '-', a letter or digit first, as 'camera-1'",
    ),
    "group": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'lyon'"),
    "model": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'fashion-edge'"),
    "profile": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'camera'"),
    "number": (r"[1-9][0-9]{0,5}", "a number from 1, as '3'"),
    "token": (r"[a-z0-9]{8,32}", "a token's id, as it was given"),
    "rollout": (r"[a-z0-9][a-z0-9-]{0,79}", "a rollout's id, as it was given"),
    "verb": (
        r"(start|pause|resume|approve|skip|abort|undo|retry)",
        "start, pause, resume, approve, skip, abort, undo or retry",
    ),
}  # fmt: skip
"""Placeholder -> what it must be as a whole, and that in words."""

_COMPILED: Final = {
    name: re.compile(rule, re.ASCII) for name, (rule, _) in _PLACEHOLDERS.items()
}  # fmt: skip


def pattern(placeholder: str) -> str:
    """The rule as a JSON Schema `pattern`."""
    return f"^{_PLACEHOLDERS[placeholder][0]}$"


def check_path(found: Mapping[str, str]) -> None:
    """Raises `Malformed`. A placeholder without a rule is a bug: `KeyError`."""
    for name, value in found.items():
        check(name, value)


def check(placeholder: str, value: str) -> str:
    """Also of a query's value. Raises `Malformed`."""
    if not _COMPILED[placeholder].fullmatch(value):
        raise Malformed(f"{shown(value)} is no {placeholder}: want {_PLACEHOLDERS[placeholder][1]}")
    return value
