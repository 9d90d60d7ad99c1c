"""Names for shell completion, from the fleet that the line names: quickly, or none and no word."""

from typing import Final

import typer

from cloud.cli.completion import Place, members, starting

FLEET: Final = Place("fleet", "HYBRIDGE_FLEET", "HYBRIDGE_FLEET_KEY")


def devices(ctx: typer.Context, incomplete: str) -> list[str]:
    return _named(ctx, incomplete, "/v1/devices?limit=1000", "devices", "id")


def groups(ctx: typer.Context, incomplete: str) -> list[str]:
    return _named(ctx, incomplete, "/v1/groups", "groups", "name")


def profiles(ctx: typer.Context, incomplete: str) -> list[str]:
    return _named(ctx, incomplete, "/v1/profiles", "profiles", "name")


def rollouts(ctx: typer.Context, incomplete: str) -> list[str]:
    """The newest first."""
    return _named(ctx, incomplete, "/v1/rollouts", "rollouts", "id")


def alarms(ctx: typer.Context, incomplete: str) -> list[str]:
    """Of drift, that are on."""
    return _named(ctx, incomplete, "/v1/drift/alarms?on=true&limit=200", "alarms", "id")


def _named(ctx: typer.Context, incomplete: str, path: str, several: str, member: str) -> list[str]:
    return starting(incomplete, members(ctx, path, several, member, FLEET))
