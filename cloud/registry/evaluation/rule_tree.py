"""A rule as a tree, and the bounds of one."""

from dataclasses import dataclass

TEXT_MAX = 4000
NESTING_MAX = 20
COMPARISONS_MAX = 100
TERMS_MAX = 50  # of one comparison's right side


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Current:
    """A metric of the current release."""

    metric: str


@dataclass(frozen=True, slots=True)
class Negative:
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    operator: str  # + - * /
    left: "Expression"
    right: "Expression"


Expression = Number | Current | Negative | Arithmetic


@dataclass(frozen=True, slots=True)
class Comparison:
    metric: str
    operator: str  # < <= > >= == !=
    bound: Expression
    text: str  # as written
    bound_text: str


@dataclass(frozen=True, slots=True)
class Not:
    part: "Condition"
    text: str


@dataclass(frozen=True, slots=True)
class All:
    parts: tuple["Condition", ...]
    text: str


@dataclass(frozen=True, slots=True)
class Any:
    parts: tuple["Condition", ...]
    text: str


Condition = Comparison | Not | All | Any


@dataclass(frozen=True, slots=True)
class Rule:
    text: str
    root: Condition


def currents(expression: Expression) -> frozenset[str]:
    """The metrics of the current release that it asks for."""
    match expression:
        case Number():
            return frozenset()
        case Current(metric):
            return frozenset({metric})
        case Negative(operand):
            return currents(operand)
        case Arithmetic(_, left, right):
            return currents(left) | currents(right)
