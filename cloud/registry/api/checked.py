"""What a path and a query may hold, checked before any handler sees them. Pure.

Every placeholder of every route has its rule here: names with `/`, `..`, `%2f`, control characters
or 10,000 bytes end here, and are shown cut short.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cloud.api.routes import Query
from shared.errors import Malformed

_NAME: Final = r"[a-z0-9][a-z0-9-]{0,63}"
_VERSION: Final = r"[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}"
_MACHINE: Final = r"[A-Za-z0-9_.-]{1,64}"
_ROLE: Final = rf"(root|targets|snapshot|timestamp|model-{_NAME})"
_SHOWN: Final = 80

_PLACEHOLDERS: Final[Mapping[str, tuple[str, str]]] = {
    "model": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'fashion-edge'"),
    "data_set": (_NAME, "1 to 64 of a-z, 0-9 and '-', as 'fashion-test'"),
    "version": (_VERSION, "three numbers, as '1.4.0'"),
    "number": (r"[1-9][0-9]{0,5}", "a number from 1, as '3'"),
    "sha256": (r"[0-9a-f]{64}", "64 lowercase hexadecimal digits"),
    "id": (r"[0-9a-f-]{36}", "an evaluation's id, as it was given"),
    "runner": (_MACHINE, "1 to 64 of A-Z, a-z, 0-9, '_', '.' and '-'"),
    "replica": (_MACHINE, "1 to 64 of A-Z, a-z, 0-9, '_', '.' and '-'"),
    "role": (_ROLE, "root, targets, snapshot, timestamp or model-NAME"),
    "file": (rf"([1-9][0-9]{{0,8}}\.)?{_ROLE}\.json", "as '3.targets.json' or 'timestamp.json'"),
}
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
        if not _COMPILED[name].fullmatch(value):
            raise Malformed(f"{shown(value)} is no {name}: want {_PLACEHOLDERS[name][1]}")


def check_query(given: Iterable[tuple[str, str]], known: Sequence[Query]) -> dict[str, str]:
    """What is there, each once. Raises `Malformed` for others, repeated ones and wrong numbers."""
    rules = {query.name: query for query in known}
    found: dict[str, str] = {}
    for name, value in given:
        rule = rules.get(name)
        if rule is None:
            there = f"; it takes {', '.join(rules)}" if rules else "; it takes none"
            raise Malformed(f"query: {shown(name)} is not known here{there}")
        if name in found:
            raise Malformed(f"query: {name} stands there twice; give it once")
        if rule.minimum is not None or rule.maximum is not None:
            _check_number(rule, value)
        found[name] = value
    return found


def check_version(text: str | None) -> str | None:
    """A version in a query. Raises `Malformed`."""
    if text is not None:
        check_path({"version": text})
    return text


def check_model(text: str | None) -> str | None:
    """A model's name in a query. Raises `Malformed`."""
    if text is not None:
        check_path({"model": text})
    return text


def seconds(name: str, text: str) -> float:
    """A number of seconds in a query, from 0. Raises `Malformed`."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text, re.ASCII):
        raise Malformed(f"query: {name} is {shown(text)}; want seconds, as '20' or '0.5'")
    return float(text)


def revision(if_match: str | None) -> int | None:
    """`If-Match: "7"`, the revision that was seen last; None where it is not said.

    Raises `Malformed`: a condition that is not understood must not be taken for none.
    """
    if if_match is None:
        return None
    found = re.fullmatch(r'"?([0-9]{1,18})"?', if_match.strip(), re.ASCII)
    if found is None:
        raise Malformed(f'If-Match {shown(if_match)}: want one revision, as "7"')
    return int(found[1])


def count_header(name: str, text: str | None) -> int:
    """A header that is a whole number of bytes. Raises `Malformed`."""
    if text is None or not re.fullmatch(r"[0-9]{1,15}", text, re.ASCII):
        raise Malformed(f"{name}: {shown(text or '')} is no number of bytes; send it")
    return int(text)


def shown(text: str) -> str:
    """As it may stand in a message or a log: cut short, without control characters."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)")


def _check_number(rule: Query, value: str) -> None:
    number = int(value) if re.fullmatch(r"[0-9]{1,18}", value, re.ASCII) else -1
    low, high = rule.minimum or 0, rule.maximum
    if number < low or (high is not None and number > high):
        bounds = f"from {low}" + ("" if high is None else f" to {high}")
        raise Malformed(f"query: {rule.name} is {shown(value)}; want a number {bounds}")
