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
    FETCH = "fetch"
    VIEWER = "viewer"
    LABELLER = "labeller"
    TRAINER = "trainer"
    APPROVER = "approver"
    OPERATOR = "operator"


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
    # of the registry
    Role.FETCH: Grant(
        frozenset({Role.FETCH}),
        "fetch released bundles and trust metadata, say what one runs: devices and workers",
    ),
    Role.VIEWER: Grant(
        frozenset({Role.VIEWER, Role.FETCH}), "all of fetch; read the registry, and its log"
    ),
    Role.LABELLER: Grant(
        frozenset({Role.LABELLER, Role.VIEWER, Role.FETCH}),
        "all of viewer; look at samples and say what they show",
    ),
    Role.TRAINER: Grant(
        frozenset({Role.TRAINER, Role.LABELLER, Role.VIEWER, Role.FETCH}),
        "all of labeller; push versions and data sets, ask for evaluations, submit training jobs",
    ),
    Role.APPROVER: Grant(
        frozenset({Role.APPROVER, Role.VIEWER, Role.FETCH}),
        "all of viewer; approve and reject versions, set a model's gate, decide loops",
    ),
    Role.OPERATOR: Grant(
        frozenset({Role.OPERATOR, Role.VIEWER, Role.FETCH}),
        "all of viewer; release and retire versions, publish trust metadata, collect garbage, "
        "delete feedback, set quotas",
    ),
}


def granted(roles: Iterable[Role]) -> frozenset[Role]:
    """Give the roles with all that they include."""
    return frozenset(one for role in roles for one in GRANTS[role].includes)
