"""What a path, a query and `If-Match` may hold, checked before any handler sees them. Pure.

Every placeholder of every route has its rule: names with `/`, `..`, `%2f`, control characters or
10,000 bytes end here, and are shown cut short.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from cloud.api.routes import Query
from shared.errors import Malformed

_SHOWN: Final = 80


class PathRules:
    """Of each placeholder of an API: what it must be as a whole, and that in words."""

    def __init__(self, placeholders: Mapping[str, tuple[str, str]]) -> None:
        self._placeholders = placeholders
        self._compiled = {
            name: re.compile(rule, re.ASCII) for name, (rule, _) in placeholders.items()
        }

    def pattern(self, placeholder: str) -> str:
        """The rule as a JSON Schema `pattern`."""
        return f"^{self._placeholders[placeholder][0]}$"

    def check_path(self, found: Mapping[str, str]) -> None:
        """Raises `Malformed`. A placeholder without a rule is a bug: `KeyError`."""
        for name, value in found.items():
            self.check(name, value)

    def check(self, placeholder: str, value: str) -> str:
        """Also of a query's value. Raises `Malformed`."""
        if not self._compiled[placeholder].fullmatch(value):
            want = self._placeholders[placeholder][1]
            raise Malformed(f"{shown(value)} is no {placeholder}: want {want}")
        return value


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


def shown(text: str) -> str:
    """As it may stand in a message or a log: cut short, without control characters."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)")


def _check_number(rule: Query, value: str) -> None:
    number = int(value) if re.fullmatch(r"[0-9]{1,18}", value, re.ASCII) else -1
    low, high = rule.minimum or 0, rule.maximum
    if number < low or (high is not None and number > high):
        bounds = f"from {low}" + ("" if high is None else f" to {high}")
        raise Malformed(f"query: {rule.name} is {shown(value)}; want a number {bounds}")
