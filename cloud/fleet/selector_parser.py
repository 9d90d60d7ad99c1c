"""Text to a selector, or a refusal that says where and what instead. Bounded, pure.

selector    = [requirement {"," requirement}]
requirement = "!" NAME | NAME | NAME ("=" | "==" | "!=") VALUE
            | NAME ("in" | "notin") "(" VALUE {"," VALUE} ")"
"""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, NoReturn

from cloud.fleet.selector import BUILT_IN, LASTING, Operator, Requirement, Selector
from shared.errors import Malformed

TEXT_MAX: Final = 500
REQUIREMENTS_MAX: Final = 50
VALUES_MAX: Final = 50
_TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z0-9](?:[A-Za-z0-9._+/-]*[A-Za-z0-9._+-])?)"
    r"|(?P<mark>==|!=|[=!,()])|(?P<end>$))",
    re.ASCII,
)
_LABEL = re.compile(r"[a-z][a-z0-9._-]{0,62}")
_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_INSTEAD = {
    "&": ",", "&&": ",", ";": ",", "!==": "!=", "<>": "!=", "~": "!", "[": "(", "]": ")",
    "{": "(", "}": ")",
}  # fmt: skip
_SHOWN_MAX = 40


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # word, mark, end
    text: str
    start: int


@lru_cache(maxsize=256)
def parse(text: str) -> Selector:
    """Raises `Malformed` with the position (from 1), the offending token and what to write."""
    if len(text) > TEXT_MAX:
        raise Malformed(f"selector: {len(text)} characters; at most {TEXT_MAX} are accepted")
    return Selector(text, _Parser(text).selector())


def parse_for_group(text: str) -> Selector:
    """As `parse`. Refuses what changes by itself: devices would wander between groups, in the
    middle of rollouts, whenever a link is lost.
    """
    selector = parse(text)
    if passing := selector.passing():
        raise Malformed(
            f"selector: {passing[0]} changes by itself, so no group can be made of it; use labels "
            f"or {', '.join(sorted(LASTING))}"
        )
    return selector


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _took(self, *texts: str) -> _Token | None:
        return self._take() if self._next.text in texts and self._next.kind != "end" else None

    def selector(self) -> tuple[Requirement, ...]:
        if self._next.kind == "end":
            return ()
        found = [self._requirement()]
        while self._next.kind != "end":
            token = self._take()
            if token.text != ",":
                _refuse(token, _between(token))
            if len(found) == REQUIREMENTS_MAX:
                _refuse(self._next, f"more than {REQUIREMENTS_MAX} requirements; use fewer")
            found.append(self._requirement())
        return tuple(found)

    def _requirement(self) -> Requirement:
        if self._took("!"):
            return Requirement(self._name(), "missing")
        name = self._name()
        if self._took("=", "=="):
            return Requirement(name, "in", frozenset({self._value(name)}))
        if self._took("!="):
            return Requirement(name, "notin", frozenset({self._value(name)}))
        if operator := self._took("in", "notin"):
            kind: Operator = "in" if operator.text == "in" else "notin"
            return Requirement(name, kind, self._values(name))
        return Requirement(name, "exists")

    def _name(self) -> str:
        token = self._take()
        if token.kind != "word":
            _refuse(token, "expected a label's name, as in `site=lyon`")
        if "/" in token.text:
            if token.text not in BUILT_IN:
                near = get_close_matches(token.text.lower(), BUILT_IN, 1, 0.5)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(BUILT_IN)}"
                _refuse(token, f"there is no such name; {hint}")
        elif not _LABEL.fullmatch(token.text):
            _refuse(
                token, "not a label's name: use 1 to 63 of a-z, 0-9, '.', '_', '-', a letter first"
            )
        return token.text

    def _values(self, name: str) -> frozenset[str]:
        if not self._took("("):
            _refuse(self._next, "expected `(`, as in `hw in (jetson,pi5)`")
        found = {self._value(name)}
        while not self._took(")"):
            token = self._take()
            if token.text != ",":
                _refuse(token, "expected `,` or `)`: a bracket is still open")
            if len(found) == VALUES_MAX:
                _refuse(self._next, f"more than {VALUES_MAX} values; use a label for them")
            found.add(self._value(name))
        return frozenset(found)

    def _value(self, name: str) -> str:
        token = self._take()
        if token.kind != "word":
            _refuse(token, f"expected a value of {name}; for any value write `{name}` alone")
        if not _VALUE.fullmatch(token.text):
            _refuse(token, "not a value: use 1 to 64 of letters, digits, '.', '_', '+', '-'")
        if name == "device/online" and token.text not in {"true", "false"}:
            _refuse(token, "device/online is true or false")
        return token.text


def _between(token: _Token) -> str:
    if token.text in {"and", "AND"}:
        return "requirements are joined by `,`"
    if token.text in {"or", "OR"}:
        return "there is no `or`; write `name in (a,b)`"
    if near := get_close_matches(token.text.lower(), ("in", "notin"), 1, 0.5):
        return f"expected `,` or the end; did you mean `{near[0]}`?"
    if token.text == ")":
        return "nothing opened this bracket; remove it"
    return "expected `,` or the end"


def _tokens(text: str) -> list[_Token]:
    tokens = []
    at = 0
    while True:
        found = _TOKEN.match(text, at)
        if found is None:
            _refuse_character(text, at)
        kind = str(found.lastgroup)
        tokens.append(_Token(kind, found[kind], found.start(kind)))
        if kind == "end":
            return tokens
        at = found.end()


def _refuse_character(text: str, at: int) -> NoReturn:
    at += len(text[at:]) - len(text[at:].lstrip())
    odd = re.match(r"&&|\|\||<>|\w+|.", text[at:], re.DOTALL)
    token = _Token("mark", odd[0] if odd else "", at)
    if token.text in {"|", "||"}:
        _refuse(token, _between(_Token("word", "or", at)))
    if token.text in {"'", '"'}:
        _refuse(token, "values stand without quotes")
    if instead := _INSTEAD.get(token.text):
        _refuse(token, f"did you mean `{instead}`?")
    _refuse(token, "not part of a selector")


def _refuse(token: _Token, why: str) -> NoReturn:
    shown = "the end" if token.kind == "end" else repr(token.text[:_SHOWN_MAX])
    raise Malformed(f"selector: at {token.start + 1}, {shown}: {why}")
