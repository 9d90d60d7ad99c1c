"""Text to a rule, or a refusal that says where and what instead. Recursive descent, bounded.

    rule       = all {"or" all}
    all        = part {"and" part}
    part       = "not" part | "(" rule ")" | comparison
    comparison = METRIC ("<" | "<=" | ">" | ">=" | "==" | "!=") sum
    sum        = product {("+" | "-") product}
    product    = factor {("*" | "/") factor}
    factor     = "-" factor | "(" sum ")" | NUMBER | "current" | "current." METRIC

A comparison begins with a metric, so an opening bracket is never ambiguous.
"""

import math
import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NoReturn

from cloud.registry.evaluation.metric_names import METRICS
from cloud.registry.evaluation.rule_tree import (
    COMPARISONS_MAX,
    NESTING_MAX,
    TERMS_MAX,
    TEXT_MAX,
    All,
    Any,
    Arithmetic,
    Comparison,
    Condition,
    Current,
    Expression,
    Negative,
    Not,
    Number,
    Rule,
    currents,
)
from cloud.registry.evaluation.rule_value import value
from shared.errors import Malformed

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))"
    r"|(?P<name>[A-Za-z_]\w*(?:\.\w+)*)|(?P<mark>[<>=!]=|[-+*/()<>])|(?P<end>$))",
    re.ASCII,
)
_COMPARES = ("<=", ">=", "==", "!=", "<", ">")
_INSTEAD = {
    "=": "==",
    "&": "and",
    "&&": "and",
    "|": "or",
    "||": "or",
    "!": "not",
    "≥": ">=",
    "≤": "<=",
}
_KEYWORDS = ("and", "or", "not")
_SHOWN_MAX = 40


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # number, name, mark, end
    text: str
    start: int
    end: int


def parse(text: str) -> Rule:
    """Raises `Malformed` with the position (from 1), the offending token and what to write."""
    if len(text) > TEXT_MAX:
        raise Malformed(f"rules: {len(text)} characters; at most {TEXT_MAX} are accepted")
    parser = _Parser(text)
    root = parser.rule()
    parser.finish()
    return Rule(text, root)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._at = 0
        self._depth = 0
        self._comparisons = 0
        self._terms = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._next
        self._at += 1
        return token

    def _took(self, *texts: str) -> _Token | None:
        return self._take() if self._next.kind != "number" and self._next.text in texts else None

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > NESTING_MAX:
            _refuse(self._next, f"nested more than {NESTING_MAX} deep; write it flatter")

    def finish(self) -> None:
        token = self._next
        if token.kind == "end":
            return
        if token.text == ")":
            _refuse(token, "nothing opened this bracket; remove it")
        if token.text in _COMPARES:
            _refuse(token, "a comparison has one sign; join two with `and`")
        near = get_close_matches(token.text.lower(), _KEYWORDS[:2], 1, 0.6)
        _refuse(token, f"expected `and`, `or` or the end{_mean(near)}")

    def rule(self) -> Condition:
        start = self._next.start
        parts = [self._all()]
        while self._took("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Any(tuple(parts), self._since(start))

    def _all(self) -> Condition:
        start = self._next.start
        parts = [self._part()]
        while self._took("and"):
            parts.append(self._part())
        return parts[0] if len(parts) == 1 else All(tuple(parts), self._since(start))

    def _part(self) -> Condition:
        if no := self._took("not"):
            self._enter()
            part = self._part()
            self._depth -= 1
            return Not(part, self._since(no.start))
        if self._took("("):
            self._enter()
            inside = self.rule()
            self._close()
            return inside
        return self._comparison()

    def _close(self) -> None:
        if not self._took(")"):
            _refuse(self._next, "expected `)`: a bracket is still open")
        self._depth -= 1

    def _comparison(self) -> Comparison:
        first = self._take()
        if first.kind != "name" or first.text in _KEYWORDS:
            _refuse(first, "expected a metric: a comparison begins with one, as `f1 >= 0.9`")
        if first.text.split(".")[0] == "current":
            _refuse(first, "the current release stands on the right, as in `f1 >= current`")
        metric = _metric(first, first.text)
        sign = self._take()
        if sign.text not in _COMPARES:
            _refuse(sign, f"expected one of {' '.join(_COMPARES)} after {metric}")
        self._comparisons += 1
        if self._comparisons > COMPARISONS_MAX:
            _refuse(first, f"more than {COMPARISONS_MAX} comparisons; use fewer")
        self._terms = 0
        start = self._next.start
        bound = self._sum(metric)
        return Comparison(metric, sign.text, bound, self._since(first.start), self._since(start))

    def _since(self, start: int) -> str:
        """What was read from there on, as it is written."""
        return " ".join(self._text[start : self._tokens[self._at - 1].end].split())

    def _sum(self, metric: str) -> Expression:
        left = self._product(metric)
        while sign := self._took("+", "-"):
            left = Arithmetic(sign.text, left, self._product(metric))
        return left

    def _product(self, metric: str) -> Expression:
        left = self._factor(metric)
        while sign := self._took("*", "/"):
            by = self._next
            right = self._factor(metric)
            if sign.text == "/" and not currents(right) and value(right, {}) == 0:
                _refuse(by, "division by zero never holds; divide by something else")
            left = Arithmetic(sign.text, left, right)
        return left

    def _factor(self, metric: str) -> Expression:
        if self._took("-"):
            self._enter()
            operand = self._factor(metric)
            self._depth -= 1
            return Negative(operand)
        if self._took("("):
            self._enter()
            inside = self._sum(metric)
            self._close()
            return inside
        token = self._take()
        self._terms += 1
        if self._terms > TERMS_MAX:
            _refuse(token, f"more than {TERMS_MAX} numbers on one side; work them out")
        if token.kind == "number":
            if not math.isfinite(number := float(token.text)):
                _refuse(token, "too large for a number")
            return Number(number)
        if token.kind != "name":
            _refuse(token, "expected a number, `current` or `current.METRIC`")
        first, _, rest = token.text.partition(".")
        if first == "current":
            return Current(_metric(token, rest) if rest else metric)
        if token.text in METRICS:
            _refuse(token, f"a metric is compared with numbers and the current release; did you "
                    f"mean current.{token.text}?")  # fmt: skip
        near = get_close_matches(first.lower(), ("current",), 1, 0.6)
        return _refuse(token, f"expected a number, `current` or `current.METRIC`{_mean(near)}")


def _tokens(text: str) -> list[_Token]:
    tokens = []
    at = 0
    while True:
        found = _TOKEN.match(text, at)
        if found is None:
            _refuse_character(text, at)
        kind = str(found.lastgroup)
        tokens.append(_Token(kind, found[kind], found.start(kind), found.end(kind)))
        if kind == "end":
            return tokens
        at = found.end()


def _refuse_character(text: str, at: int) -> NoReturn:
    at += len(text[at:]) - len(text[at:].lstrip())
    odd = re.match(r"[\w.%]+|&&|\|\||.", text[at:], re.DOTALL)
    shown = odd[0] if odd else ""
    token = _Token("mark", shown, at, at + len(shown))
    if instead := _INSTEAD.get(shown):
        _refuse(token, f"did you mean `{instead}`?")
    if shown[:1] == "%":
        _refuse(token, "write a share as 0.95, not as 95%")
    if shown[:1].isdigit() or shown[:1] == ".":
        _refuse(token, "not a number; write it as 0.95 or 1e-3, a share without %")
    _refuse(token, "not part of a rule")


def _metric(token: _Token, name: str) -> str:
    if name not in METRICS:
        near = get_close_matches(name.lower(), METRICS, 1, 0.5)
        hint = _mean(near) or f"; there are {', '.join(METRICS)}"
        _refuse(token, f"there is no metric {name[:_SHOWN_MAX]!r}{hint}")
    return name


def _mean(near: list[str]) -> str:
    return f"; did you mean {near[0]}?" if near else ""


def _refuse(token: _Token, why: str) -> NoReturn:
    shown = "the end" if token.kind == "end" else repr(token.text[:_SHOWN_MAX])
    raise Malformed(f"rules: at {token.start + 1}, {shown}: {why}")
