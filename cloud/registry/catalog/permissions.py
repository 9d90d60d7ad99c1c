"""Who may do what: the one table of it. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from cloud.gateway.roles import Role
from cloud.registry.catalog import commands as k
from shared.errors import Forbidden

PERMISSIONS: Final[Mapping[type[k.Command], frozenset[Role]]] = {
    k.SetModel: frozenset({Role.TRAINER, Role.APPROVER}),  # one that is there: approvers alone
    k.Register: frozenset({Role.TRAINER}),
    k.AddDataSet: frozenset({Role.TRAINER}),
    k.QueueEvaluation: frozenset({Role.TRAINER, Role.APPROVER}),
    k.Approve: frozenset({Role.APPROVER}),
    k.Reject: frozenset({Role.APPROVER}),
    k.Release: frozenset({Role.OPERATOR}),
    k.Retire: frozenset({Role.OPERATOR}),
    k.Delete: frozenset({Role.OPERATOR}),
    k.PublishTrust: frozenset({Role.OPERATOR}),
    k.Promote: frozenset({Role.OPERATOR}),
    # the registry's own: no caller's role is enough
    k.ClaimEvaluation: frozenset(),
    k.RenewEvaluation: frozenset(),
    k.EndEvaluation: frozenset(),
    k.AddDelta: frozenset(),
}
"""One of the roles is enough."""


def permitted(command: k.Command, roles: Collection[Role], caller: str) -> k.Command:
    """Give the command as this caller may make it; the catalog takes it from there.

    Who is a trainer only may make a model and not change one: so it must not be there yet, which
    the command then says itself, and no race gets around. Raises `Forbidden`.
    """
    needed = PERMISSIONS[type(command)]
    if not needed & set(roles):
        raise Forbidden(
            f"{caller} may not {_words(command)}: it takes the role "
            f"{' or '.join(sorted(needed)) or 'of the registry itself'}"
        )
    if isinstance(command, k.SetModel) and Role.APPROVER not in roles:
        if command.revision:
            raise Forbidden(f"{caller} may make models; to change one takes the role approver")
        return replace(command, revision=0)
    return command


def _words(command: k.Command) -> str:
    """SetModel: set model."""
    name = type(command).__name__
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
