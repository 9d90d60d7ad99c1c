"""Does what was measured hold the gate's rules? `parse` at the gate's creation, `judge` after.

Three values: a comparison holds, does not, or cannot be told (a figure is missing or NaN). `not` of
what cannot be told cannot be told either, and only what holds passes. Without a current release a
comparison with it is satisfied, under `not` too: the first version has nothing to fall behind.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never

from cloud.registry.documents import RuleResult
from cloud.registry.evaluation.rule_parser import parse
from cloud.registry.evaluation.rule_tree import (
    All,
    Any,
    Comparison,
    Condition,
    Not,
    Number,
    Rule,
    currents,
)
from cloud.registry.evaluation.rule_value import value

__all__ = ["Judgement", "NoCurrent", "Rule", "judge", "parse"]

_TEXT_MAX = 400
_COMPARE: Mapping[str, Callable[[float, float], bool]] = MappingProxyType({
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class NoCurrent:
    """There is nothing to compare with, and why: comparisons with it are satisfied."""

    why: str = "there is no current release"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The rule holds when every result does."""

    holds: bool
    results: tuple[RuleResult, ...]


def judge(
    rule: Rule,
    metrics: Mapping[str, float],
    current: Mapping[str, float] | NoCurrent | None,
    *,
    variant: str = "",
    missing: Mapping[str, str] = MappingProxyType({}),
    current_missing: Mapping[str, str] = MappingProxyType({}),
) -> Judgement:
    """One result for each condition that `and` joins at the top; `or` and `not` are one.

    `missing`, `current_missing`: metric -> why it was not measured. None: no current release.
    """
    case = _Case(metrics, NoCurrent() if current is None else current, missing, current_missing)
    results = []
    for condition in _joined(rule.root):
        said: list[str] = []
        holds = _holds(condition, case, said, negated=False) is True
        results.append(
            RuleResult(
                rule=_short(condition.text),
                variant=variant,
                holds=holds,
                why=_short("; ".join(said)),
            )
        )
    return Judgement(all(result.holds for result in results), tuple(results))


@dataclass(frozen=True, slots=True)
class _Case:
    metrics: Mapping[str, float]
    current: Mapping[str, float] | NoCurrent
    missing: Mapping[str, str]
    current_missing: Mapping[str, str]


def _joined(condition: Condition) -> Iterator[Condition]:
    if isinstance(condition, All):
        for part in condition.parts:
            yield from _joined(part)
    else:
        yield condition


def _short(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 3]}..."


def _holds(condition: Condition, case: _Case, said: list[str], *, negated: bool) -> bool | None:
    match condition:
        case Comparison():
            found, why = _found(condition, case, negated=negated)
            said.append(why)
            return found
        case Not(part):
            inside = _holds(part, case, said, negated=not negated)
            return None if inside is None else not inside
        case All(parts):
            found_all = [_holds(part, case, said, negated=negated) for part in parts]
            return False if False in found_all else None if None in found_all else True
        case Any(parts):
            found_any = [_holds(part, case, said, negated=negated) for part in parts]
            return True if True in found_any else None if None in found_any else False
        case _:
            assert_never(condition)


def _found(comparison: Comparison, case: _Case, *, negated: bool) -> tuple[bool | None, str]:
    metric, asked = comparison.metric, sorted(currents(comparison.bound))
    mine = case.metrics.get(metric, math.nan)
    if not math.isfinite(mine):
        return None, f"{metric} is not measured: {_why_missing(metric, case.metrics, case.missing)}"
    said = f"{metric} is {figure(mine)}"
    if not asked:
        bound = value(comparison.bound, {})
        return _decide(comparison, mine, bound, said, "")
    if isinstance(case.current, NoCurrent):
        return not negated, f"{said}; {case.current.why}, so there is nothing to fall behind"
    for name in asked:
        if not math.isfinite(case.current.get(name, math.nan)):
            why = _why_missing(name, case.current, case.current_missing)
            return None, f"{said}; the current release's {name} is not measured: {why}"
    with_current = ", ".join(f"current {name} {figure(case.current[name])}" for name in asked)
    return _decide(comparison, mine, value(comparison.bound, case.current), said, with_current)


def _decide(
    comparison: Comparison, mine: float, bound: float, said: str, with_current: str
) -> tuple[bool | None, str]:
    if not math.isfinite(bound):
        return (
            None,
            f"{said}; `{comparison.bound_text}` has no value ({with_current or 'overflow'})",
        )
    holds = _COMPARE[comparison.operator](mine, bound)
    is_plain = isinstance(comparison.bound, Number)
    shown = figure(bound) if is_plain else f"{comparison.bound_text} = {figure(bound)}"
    tail = f" ({with_current})" if with_current else ""
    return holds, f"{said}, {'' if holds else 'not '}{comparison.operator} {shown}{tail}"


def _why_missing(metric: str, metrics: Mapping[str, float], missing: Mapping[str, str]) -> str:
    if metric in metrics:
        return "it is NaN or infinite"
    return missing.get(metric, "nothing was said of it")


def figure(number: float) -> str:
    """Up to six significant digits."""
    return f"{number:.6g}"
