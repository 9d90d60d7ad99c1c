"""What a caller may do. Pure; the one table of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a route asks for, and what a key or a token is given."""

    INFER = "infer"
    JOBS = "jobs"
    OPERATE = "operate"
    OBSERVE = "observe"


@dataclass(frozen=True, slots=True)
class Grant:
    """What comes with a role."""

    includes: frozenset[Role]
    may: str


GRANTS: Final[Mapping[Role, Grant]] = {
    Role.INFER: Grant(
        frozenset({Role.INFER}), "ask models, read what they take and give, fetch own results"
    ),
    Role.JOBS: Grant(
        frozenset({Role.JOBS, Role.INFER}), "all of infer; hand in work that runs for hours"
    ),
    Role.OBSERVE: Grant(frozenset({Role.OBSERVE}), "read metrics, status and budgets"),
    Role.OPERATE: Grant(
        frozenset({Role.OPERATE, Role.OBSERVE}), "all of observe; load and unload models"
    ),
}


def granted(roles: Iterable[Role]) -> frozenset[Role]:
    """Give the roles with all that they include."""
    return frozenset(one for role in roles for one in GRANTS[role].includes)
