"""What the right side of a comparison comes to."""

import math
from collections.abc import Mapping
from typing import assert_never

from cloud.registry.evaluation.rule_tree import Arithmetic, Current, Expression, Negative, Number


def value(expression: Expression, current: Mapping[str, float]) -> float:
    """NaN where it has none: a figure that is not there, a division by zero, infinity."""
    match expression:
        case Number(number):
            return number
        case Current(metric):
            return current.get(metric, math.nan)
        case Negative(operand):
            return -value(operand, current)
        case Arithmetic(operator, left, right):
            found = _apply(operator, value(left, current), value(right, current))
            return found if math.isfinite(found) else math.nan
        case _:
            assert_never(expression)


def _apply(operator: str, left: float, right: float) -> float:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            return left / right if right else math.nan
