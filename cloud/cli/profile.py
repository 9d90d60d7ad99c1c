"""`hybridge profile`: device profiles, versioned settings that devices take while they run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.fleet_completion import profiles
from cloud.cli.fleet_session import CODES, Fleet, KeyFile, ask
from cloud.cli.output import Format, Output, cell, facts, grid, moment, show
from cloud.cli.registry_session import DryRun, ending

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from cloud.fleet.client.client import FleetClient
    from cloud.fleet.documents import Profile

profile = typer.Typer(
    no_args_is_help=True,
    help="Device profiles: settings that devices take while they run; a version never changes. "
    f"`hybridge rollout start --profile` moves devices to one. {CODES}",
)
Name = Annotated[str, typer.Argument(metavar="PROFILE", help="Its name.", autocompletion=profiles)]
Number = Annotated[int, typer.Argument(metavar="VERSION", min=1, help="A number, from 1.")]


@profile.command()
def push(
    name: Name,
    version: Number,
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The settings.")],
    *,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Push a version of a device profile. The same again changes nothing.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 that version is
    there with other settings: give yours the next number.
    """
    with ending():
        from cloud.fleet.profile_files import read_profile
        from shared.fleet.profile import digest

        settings = read_profile(file)
        sha256 = digest(settings)
    members = settings.model_dump(mode="json", exclude_none=True)
    if dry_run:
        found = ask(fleet, key_file, lambda asked: _state(asked, name, version, sha256))
        tree = {
            "dry_run": True, "profile": name, "version": version, "sha256": sha256,
            "settings": members, "state": found,
        }  # fmt: skip
        line = cell(f"profile {name} {version} ({_text(members)}): {found}")
        show(tree, output, lambda out: out.print(line, soft_wrap=True))
        return
    pushed = ask(fleet, key_file, lambda asked: asked.push_profile(name, version, members))
    line = cell(f"profile {name} {version} is there: {_text(members)}")
    show(pushed, output, lambda out: out.print(line, soft_wrap=True))


@profile.command(name="list")
def list_profiles(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[PROFILE]", help="Its versions alone.", autocompletion=profiles),
    ] = None,
    *,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """List the device profiles, each version.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    found = ask(fleet, key_file, lambda asked: asked.profiles(name))
    rows = (
        (
            one.name, str(one.version), _text(one.settings.model_dump(exclude_none=True)),
            moment(one.pushed_at), one.pushed_by,
        )
        for one in found
    )  # fmt: skip
    columns = ("profile", "version", "settings", "pushed", "by")
    show(found, output, lambda out: grid(out, "Device profiles", columns, rows))


@profile.command()
def get(
    name: Name,
    version: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", min=1, help="Default: the newest.")
    ] = None,
    *,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a version of a device profile, by default the newest.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """

    async def work(asked: "FleetClient") -> "Profile":
        from shared.errors import Unknown

        there = {one.version: one for one in await asked.profiles(name)}
        number = max(there, default=0) if version is None else version
        if number not in there:
            known = ", ".join(map(str, sorted(there)[-10:])) or "none"
            raise Unknown(f"profile {name} {version or ''}: is not there; versions: {known}")
        return there[number]

    found = ask(fleet, key_file, work)

    def table(out: "Console") -> None:
        members = found.settings.model_dump(mode="json", exclude_none=True)
        rows: list[tuple[str, object]] = [
            *((setting, str(value)) for setting, value in members.items()),
            ("pushed", f"{moment(found.pushed_at)} by {found.pushed_by}"),
            ("sha256", found.sha256),
        ]
        facts(out, f"{found.name} {found.version}", rows)

    show(found, output, table)


async def _state(asked: "FleetClient", name: str, version: int, sha256: str) -> str:
    from shared.errors import Conflict, Unknown

    try:
        there = [one for one in await asked.profiles(name) if one.version == version]
    except Unknown:
        there = []
    if not there:
        return "would be pushed"
    if there[0].sha256 != sha256:
        raise Conflict(
            f"profile {name} {version}: is there with other settings, and a version never changes; "
            f"give yours the next number"
        )
    return "is there already"


def _text(members: "Mapping[str, object]") -> str:
    return ", ".join(f"{name} {value}" for name, value in members.items()) or "no settings"
