"""Which group takes a device: exactly one, so groups and their rollouts never overlap. Pure."""

from collections.abc import Iterable, Sequence

from cloud.fleet.documents import EVERYBODY, Group
from cloud.fleet.selector import Facts, Test
from cloud.fleet.selector_parser import parse_for_group


class Grouping:
    """Of all groups as they are now, compiled once for many devices."""

    def __init__(self, groups: Iterable[Group]) -> None:
        """Raises `Malformed` for a selector that does not parse."""
        self._tests: Sequence[tuple[str, Test]] = tuple(
            (group.name, parse_for_group(group.selector).test())
            for group in sorted(groups, key=lambda one: (-one.priority, one.name))
            if group.name != EVERYBODY
        )

    def group_of(self, facts: Facts) -> str:
        """Of those that take it the one of the highest priority, then the first by name."""
        for name, test in self._tests:
            if test(facts):
                return name
        return EVERYBODY
