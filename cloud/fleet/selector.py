"""Which devices a selector means, as Kubernetes has it: `site=lyon,hw in (jetson,pi5),!spare`. Pure.

The comma is "and". A device without the label is taken by `!=`, `notin` and `!`. Beside labels
there are names for what a device reports: `device/arch=aarch64`, `device/online=true`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, assert_never

Operator = Literal["in", "notin", "exists", "missing"]
Test = Callable[["Facts"], bool]

BUILT_IN: Final = (
    "device/id",
    "device/arch",
    "device/engine",
    "device/model",
    "device/version",
    "device/online",
)
"""`device/engine` is any of those that run on the device."""
LASTING: Final = frozenset({"device/id", "device/arch", "device/engine"})
"""Those that no rollout and no lost link changes: a group may be made of them."""


class Facts(NamedTuple):
    """What selectors look at. Empty: the device did not say. A tuple is made three times as quickly
    as a frozen dataclass, and a selector looks at all devices.
    """

    id: str
    labels: Mapping[str, str] = MappingProxyType({})
    arch: str = ""
    engines: frozenset[str] = frozenset()
    model: str = ""
    version: str = ""
    online: bool = False


@dataclass(frozen=True, slots=True)
class Requirement:
    """`name=a` is `in` with one value, `name!=a` is `notin`."""

    name: str
    operator: Operator
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Selector:
    """All of its requirements; without any it takes every device. `selector_parser.parse` makes it."""

    text: str
    requirements: tuple[Requirement, ...]

    def test(self) -> Test:
        """Compiled: 100,000 devices take a fraction of a second."""
        tests = tuple(_test(one) for one in self.requirements)
        match tests:
            case ():
                return lambda _facts: True
            case (only,):
                return only
            case _:
                return lambda facts: all(test(facts) for test in tests)

    def passing(self) -> tuple[str, ...]:
        """The names in it that change by themselves, so that no group may be made of them."""
        return tuple(
            one.name
            for one in self.requirements
            if one.name.startswith("device/") and one.name not in LASTING
        )


def matches(selector: Selector, facts: Facts) -> bool:
    """For one device; who asks for many keeps `selector.test()`."""
    return selector.test()(facts)


def _test(requirement: Requirement) -> Test:
    values = requirement.values
    if requirement.name == "device/engine":
        return _of_engines(requirement)
    look = _LOOKS.get(requirement.name) or _label(requirement.name)
    match requirement.operator:
        case "in":
            return lambda facts: look(facts) in values
        case "notin":
            return lambda facts: look(facts) not in values
        case "exists":
            return lambda facts: bool(look(facts))
        case "missing":
            return lambda facts: not look(facts)
        case _:
            assert_never(requirement.operator)


def _of_engines(requirement: Requirement) -> Test:
    values = requirement.values
    match requirement.operator:
        case "in":
            return lambda facts: not values.isdisjoint(facts.engines)
        case "notin":
            return lambda facts: values.isdisjoint(facts.engines)
        case "exists":
            return lambda facts: bool(facts.engines)
        case "missing":
            return lambda facts: not facts.engines
        case _:
            assert_never(requirement.operator)


def _label(name: str) -> Callable[[Facts], str]:
    return lambda facts: facts.labels.get(name, "")


_LOOKS: Final[Mapping[str, Callable[[Facts], str]]] = {
    "device/id": lambda facts: facts.id,
    "device/arch": lambda facts: facts.arch,
    "device/model": lambda facts: facts.model,
    "device/version": lambda facts: facts.version,
    "device/online": lambda facts: "true" if facts.online else "false",
}
