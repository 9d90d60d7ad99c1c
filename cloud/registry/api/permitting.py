"""What a caller may do to the catalog: the same step at the head of each handler that changes it."""

from aiohttp import web

from cloud.api.asking import actor_of
from cloud.api.middleware import CALLER
from cloud.gateway.roles import Role
from cloud.registry.catalog.catalog import Applied
from cloud.registry.catalog.commands import Command
from cloud.registry.catalog.permissions import PERMISSIONS, permitted
from cloud.registry.registry import Registry
from shared.errors import Forbidden


def roles_of(request: web.Request) -> frozenset[Role]:
    """All, where there is no gateway."""
    caller = request.get(CALLER)
    return frozenset(Role) if caller is None else caller.roles


def permit(request: web.Request, command: type[Command]) -> None:
    """Whether the caller may give such a command at all; before anything of the body is read.

    Raises `Forbidden`.
    """
    wanted = PERMISSIONS[command]
    if not wanted & roles_of(request):
        raise Forbidden(
            f"{actor_of(request)} may not do this: it needs the role "
            f"{' or '.join(sorted(wanted))}; ask whoever gave you the key or the token"
        )


async def apply(registry: Registry, request: web.Request, command: Command) -> Applied:
    """The one way from a request into the catalog: as this caller may, under his name.

    Raises `Forbidden`, `ReadOnly`, and as `Catalog.apply`.
    """
    actor = actor_of(request)
    return await registry.apply(permitted(command, roles_of(request), actor), actor=actor)
