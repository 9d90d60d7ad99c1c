"""Does what was measured hold the gate's rules? `parse` at the gate's creation, `judge` after.

Three values: a comparison holds, does not, or cannot be told (a figure is missing or NaN). `not` of
what cannot be told cannot be told either, and only what holds passes. Without a current release a
comparison with it is satisfied, under `not` too: the first version has nothing to fall behind.
"""

import math
import operator
from collections.abc import Callable, Mapping
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

_WHY_MAX = 2000
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
    """`results` has each comparison on its own; with `or`, one may fail while the rule holds."""

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
    """`missing`, `current_missing`: metric -> why it was not measured. None: no current release."""
    case = _Case(
        metrics, NoCurrent() if current is None else current, variant, missing, current_missing
    )
    results: list[RuleResult] = []
    holds = _holds(rule.root, case, results, negated=False)
    return Judgement(holds is True, tuple(results))


@dataclass(frozen=True, slots=True)
class _Case:
    metrics: Mapping[str, float]
    current: Mapping[str, float] | NoCurrent
    variant: str
    missing: Mapping[str, str]
    current_missing: Mapping[str, str]


def _holds(
    condition: Condition, case: _Case, results: list[RuleResult], *, negated: bool
) -> bool | None:
    match condition:
        case Comparison():
            return _compare(condition, case, results, negated=negated)
        case Not(part):
            inside = _holds(part, case, results, negated=not negated)
            return None if inside is None else not inside
        case All(parts):
            found = [_holds(part, case, results, negated=negated) for part in parts]
            return False if False in found else None if None in found else True
        case Any(parts):
            found = [_holds(part, case, results, negated=negated) for part in parts]
            return True if True in found else None if None in found else False
        case _:
            assert_never(condition)


def _compare(
    comparison: Comparison, case: _Case, results: list[RuleResult], *, negated: bool
) -> bool | None:
    """The result that is written down says whether it stands as the rule wants it."""
    found, why = _found(comparison, case, negated=negated)
    results.append(
        RuleResult(
            rule=f"not {comparison.text}" if negated else comparison.text,
            variant=case.variant,
            holds=found is (not negated),
            why=why[:_WHY_MAX],
        )
    )
    return found


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
