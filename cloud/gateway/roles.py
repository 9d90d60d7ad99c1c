"""What a caller may do. Pure; the one table of it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Role(StrEnum):
    """What a route asks for, and what a key or a token is given."""

    READ = "read"
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
    Role.READ: Grant(
        frozenset({Role.READ}), "read which models there are, what they take and give"
    ),
    Role.INFER: Grant(
        frozenset({Role.INFER, Role.READ}), "all of read; ask models, fetch own results"
    ),
    Role.JOBS: Grant(
        frozenset({Role.JOBS, Role.INFER, Role.READ}), "all of infer; hand in asynchronous calls"
    ),
    Role.OBSERVE: Grant(
        frozenset({Role.OBSERVE, Role.READ}), "all of read; read metrics, status and budgets"
    ),
    Role.OPERATE: Grant(
        frozenset({Role.OPERATE, Role.OBSERVE, Role.READ}),
        "all of observe; load and unload models",
    ),
}


def granted(roles: Iterable[Role]) -> frozenset[Role]:
    """Give the roles with all that they include."""
    return frozenset(one for role in roles for one in GRANTS[role].includes)
