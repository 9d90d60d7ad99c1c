"""`hybridge group`: which devices belong together, and what each has where no rollout moves it."""

from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.fleet_completion import groups
from cloud.cli.fleet_session import CODES, Comment, Fleet, KeyFile, ask
from cloud.cli.output import Format, Output, cell, grid, show
from cloud.cli.registry_session import DryRun

if TYPE_CHECKING:
    from cloud.fleet.client.client import FleetClient
    from cloud.fleet.documents import Group

group = typer.Typer(
    no_args_is_help=True, help=f"The fleet's groups: each device is in exactly one. {CODES}"
)
Name = Annotated[str, typer.Argument(metavar="GROUP", help="Its name.", autocompletion=groups)]
COLUMNS = ("group", "selector", "priority", "models", "profile", "revision")


@group.command(name="list")
def list_groups(
    *, fleet: Fleet = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """List the groups, and what their devices have where no rollout moves them.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    found = ask(fleet, key_file, lambda asked: asked.groups())
    show(found, output, lambda out: grid(out, "Groups", COLUMNS, map(row, found)))


@group.command()
def get(
    name: Name, *, fleet: Fleet = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """Show a group.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    found = ask(fleet, key_file, lambda asked: asked.group(name), group=name)
    show(found, output, lambda out: grid(out, name, COLUMNS, [row(found)]))


@group.command(name="set")
def set_group(
    name: Name,
    *,
    selector: Annotated[
        str | None, typer.Option("--selector", "-l", help="As 'site=lyon,hw in (jetson,pi5)'.")
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(min=0, max=1000, help="The highest one that takes a device has it."),
    ] = None,
    baseline: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="MODEL VERSION", help="What it has from now on, without a rollout."),
    ] = None,
    manifest: Annotated[
        str | None,
        typer.Option(metavar="SHA256", help="Of --baseline, where the fleet has no registry."),
    ] = None,
    profile: Annotated[
        tuple[str, int] | None,
        typer.Option(metavar="NAME VERSION", help="Its device profile, without a rollout."),
    ] = None,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Make a group, or change it; what is not named stays.

    --baseline and --profile are an operator's override: its devices get that at once, without
    evidence; `hybridge rollout start` asks for it.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 somebody was
    first, or a rollout runs that it would change.
    """
    if manifest is not None and baseline is None:
        raise typer.BadParameter("--manifest is of a baseline: give --baseline, too")

    async def work(asked: "FleetClient") -> "Group":
        seen = await _known(asked, name)
        revision = 0 if seen is None else seen.revision
        wanted = _wanted(name, seen, selector, priority, baseline, manifest, profile)
        if dry_run:
            return wanted
        found = seen
        if found is None or (wanted.selector, wanted.priority) != (found.selector, found.priority):
            found = await asked.put_group(name, wanted.selector, wanted.priority, revision)
        if baseline is not None:
            model, version = baseline
            found = await asked.set_baseline(name, model, version, manifest, found.revision)
        if profile is not None:
            found = await asked.set_group_profile(name, *profile, found.revision)
        return found

    found = ask(fleet, key_file, work)
    title = f"{name} would be" if dry_run else name
    show(found, output, lambda out: grid(out, title, COLUMNS, [row(found)]))


@group.command()
def delete(
    name: Name, *, comment: Comment, fleet: Fleet = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Delete a group: its devices are in the next one that takes them, and get what that has.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 a rollout holds it.
    """

    async def work(asked: "FleetClient") -> None:
        seen = await asked.group(name)
        if not dry_run:
            await asked.remove_group(name, comment, seen.revision)

    ask(fleet, key_file, work, group=name)
    tree = {"dry_run": dry_run, "deleted": not dry_run, "group": name}
    line = f"would delete group {name}" if dry_run else f"group {name} is deleted"
    show(tree, output, lambda out: out.print(cell(line), soft_wrap=True))


def row(group: "Group") -> tuple[object, ...]:
    """Of a table with `COLUMNS`."""
    models = ", ".join(f"{name} {one.version}" for name, one in sorted(group.models.items()))
    profile = None if group.profile is None else f"{group.profile.name} {group.profile.version}"
    return (
        group.name, group.selector or "every device", group.priority, models or "none", profile,
        group.revision,
    )  # fmt: skip


async def _known(asked: "FleetClient", name: str) -> "Group | None":
    from shared.errors import Unknown

    try:
        return await asked.group(name)
    except Unknown:
        return None


def _wanted(
    name: str, seen: "Group | None", selector: str | None, priority: int | None,
    baseline: tuple[str, str] | None, manifest: str | None, profile: tuple[str, int] | None,
) -> "Group":  # fmt: skip
    """As it would be, checked for form. Raises `Malformed`."""
    from pydantic import ValidationError

    from cloud.fleet.documents import Group
    from cloud.fleet.selector_parser import parse_for_group
    from shared.config import in_words
    from shared.errors import Malformed

    tree: dict[str, object] = {"name": name} if seen is None else seen.model_dump()
    if selector is not None:
        parse_for_group(selector)
        tree["selector"] = selector
    if priority is not None:
        tree["priority"] = priority
    if baseline is not None:
        models = dict(seen.model_dump()["models"]) if seen is not None else {}
        models[baseline[0]] = {"version": baseline[1], "manifest_sha256": manifest or "0" * 64}
        tree["models"] = models
    if profile is not None:
        tree["profile"] = {"name": profile[0], "version": profile[1]}
    try:
        return Group.model_validate(tree)
    except ValidationError as error:
        raise Malformed(f"group: {in_words(error)}") from error
