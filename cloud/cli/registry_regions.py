"""`hybridge registry promote|rejoin`: which registry is home, changed on the machine that it concerns."""

import asyncio
import getpass
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.output import Format, Output, say, show
from cloud.cli.registry_session import Code, Comment, DryRun, ending
from cloud.cli.signing_keys import PasswordFile, signers_from

if TYPE_CHECKING:
    from cloud.registry.config import RegistryConfig

Config = Annotated[
    Path, typer.Option("--config", metavar="registry.toml", help="Of the registry on this machine.")
]


def promote(
    *,
    config: Config,
    root_key: Annotated[
        list[Path],
        typer.Option(
            metavar="KEY.pem", help="Of the root of trust; repeat it for each that signs."
        ),
    ],
    comment: Comment,
    force: Annotated[bool, typer.Option("--force", help="Accept what would be lost.")] = False,
    password_file: PasswordFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Make this replica the home, after a disaster: on its machine, with enough root keys.

    New online keys and a root of a higher epoch shut the old home out for all who have seen it. A
    running registry becomes home by itself; killed half-way, run it again. What would be lost is
    said first, and is lost only with --force.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 4 it is no replica, or something would be lost.
    """
    from cloud.registry.replication.promotion import promote as run

    with ending():
        settings = _settings(config)
        signers = signers_from(root_key, password_file)
        found = asyncio.run(
            run(
                settings, signers, actor=getpass.getuser(), comment=comment,
                environment=os.environ, now=datetime.now(UTC), force=force, dry_run=dry_run,
            )
        )  # fmt: skip
    tree = {
        "dry_run": dry_run, "done": found.done, "epoch": found.epoch, "entry": found.seq,
        "root_version": found.root_version, "lost": list(found.lost),
    }  # fmt: skip
    verb = "is home" if found.done else "would become home"
    line = f"{settings.name} {verb} in epoch {found.epoch}, from entry {found.seq} on"
    show(tree, output, lambda out: out.print(line, soft_wrap=True))
    for loss in found.lost:
        say(f"{'lost' if found.done else 'would be lost'}: {loss}")
    if dry_run and found.lost and not force:
        raise typer.Exit(Code.CONFLICT)  # as it would be
    if found.done:
        say(
            f"move new keys out of reach of others; root {found.root_version} reaches devices by itself"
        )


def rejoin(
    *,
    config: Config,
    home: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="The new home. Default: as it was told when fenced."),
    ] = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Make a fenced home, or a replica whose log forked, a replica again; with it stopped.

    What only this registry has is written aside first, and nothing of it is lost.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 4 this is the home.
    """
    from cloud.registry.replication.rejoin import rejoin as run

    with ending():
        settings = _settings(config)
        found = asyncio.run(run(settings, home or (), datetime.now(UTC), is_dry_run=dry_run))
    tree = {
        "home": found.home, "fork_entry": found.fork_seq, "entries_aside": found.entries,
        "aside": found.divergent and str(found.divergent),
        "old_catalog": found.catalog and str(found.catalog),
    }  # fmt: skip
    follows = "would follow" if dry_run else "follows"
    line = f"{settings.name} {follows} {found.home}; the logs agree up to entry {found.fork_seq}"
    show(tree, output, lambda out: out.print(line, soft_wrap=True))
    if found.divergent:
        say(f"{found.entries} entries that only this registry had: {found.divergent}")
    elif dry_run and found.entries:
        say(f"{found.entries} entries that only this registry has would be written aside")


def _settings(path: Path) -> "RegistryConfig":
    from cloud.registry.config import load

    return load(path, {})
