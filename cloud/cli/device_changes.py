"""`hybridge device label|quarantine|release|revoke|remove`: an operator's word on a device."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cloud.cli.device_arguments import DeviceName, changed_labels, labels_text, state_text
from cloud.cli.fleet_session import Comment, Fleet, KeyFile, ask
from cloud.cli.output import Format, Output, cell, show
from cloud.cli.registry_session import DryRun

if TYPE_CHECKING:
    from cloud.fleet.client.client import FleetClient
    from cloud.fleet.documents import Device


def label(
    name: DeviceName,
    labels: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE...", help="NAME=VALUE sets a label, NAME- takes it away."
        ),
    ],
    *,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Change a device's labels; those that are not named stay. Its group follows from them.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 somebody was
    first, or a rollout holds it.
    """
    from cloud.cli.registry_session import ending

    with ending():
        changed_labels({}, labels)  # refused before anybody is asked

    async def work(asked: "FleetClient") -> "tuple[Device, dict[str, str]]":
        seen = await asked.device(name)
        wanted = changed_labels(seen.labels, labels)
        if dry_run or wanted == seen.labels:
            return seen, wanted
        return await asked.label(name, wanted, seen.revision), wanted

    found, wanted = ask(fleet, key_file, work, device=name)
    if dry_run:
        tree = {"dry_run": True, "device": name, "labels": found.labels, "would_be": wanted}
        line = f"{name}: would be labelled {labels_text(wanted) or 'with nothing'}"
        show(tree, output, lambda out: out.print(cell(line), soft_wrap=True))
        return
    line = f"{name}: {labels_text(found.labels) or 'no labels'}; in group {found.group}"
    show(found, output, lambda out: out.print(cell(line), soft_wrap=True))


def quarantine(
    name: DeviceName,
    *,
    comment: Comment,
    lasts: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="As 24h. Default: until `release`."),
    ] = None,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Keep a device out of rollouts; what its group has still reaches it.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 somebody was first.
    """
    from cloud.cli.registry_session import ending
    from cloud.cli.rollout_words import seconds

    with ending():
        until = None if lasts is None else time.time() + seconds(lasts, "--for")
    _change(
        "quarantine", name, fleet, key_file, output, dry_run=dry_run,
        act=lambda asked, seen: asked.quarantine(name, comment, until, seen.revision),
    )  # fmt: skip


def release(
    name: DeviceName, *, comment: Comment, fleet: Fleet = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """End a device's quarantine.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 it is in none, or
    somebody was first.
    """
    _judge("release", name, comment, fleet, key_file, output, dry_run=dry_run)


def revoke(
    name: DeviceName, *, comment: Comment, fleet: Fleet = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Make a device's certificates worth nothing: for one that is stolen or broken. No way back:
    enrol it again.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 it is revoked
    already, or somebody was first.
    """
    _judge("revoke", name, comment, fleet, key_file, output, dry_run=dry_run)


def remove(
    name: DeviceName, *, comment: Comment, fleet: Fleet = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Forget a device; its lines in the log stay. Revoke it first if it can still speak.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 something holds it.
    """

    async def work(asked: "FleetClient") -> "Device":
        seen = await asked.device(name)
        if not dry_run:
            await asked.remove(name, comment, seen.revision)
        return seen

    found = ask(fleet, key_file, work, device=name)
    tree = {"dry_run": dry_run, "removed": not dry_run, "device": name}
    line = f"would remove {name}, which is {state_text(found)}" if dry_run else f"{name} is removed"
    show(tree, output, lambda out: out.print(cell(line), soft_wrap=True))


def _judge(
    verb: Literal["revoke", "release"], name: str, comment: str, fleet: list[str] | None,
    key_file: Path | None, output: Format, *, dry_run: bool,
) -> None:  # fmt: skip
    _change(
        verb, name, fleet, key_file, output, dry_run=dry_run,
        act=lambda asked, seen: asked.judge(verb, name, comment, seen.revision),
    )  # fmt: skip


def _change(
    verb: str, name: str, fleet: list[str] | None, key_file: Path | None, output: Format, *,
    dry_run: bool, act: "Callable[[FleetClient, Device], Awaitable[Device]]",
) -> None:  # fmt: skip
    """What was seen is what is changed: whoever was first wins."""

    async def work(asked: "FleetClient") -> "Device":
        seen = await asked.device(name)
        return seen if dry_run else await act(asked, seen)

    found = ask(fleet, key_file, work, device=name)
    if dry_run:
        tree = {"dry_run": True, "would": verb, "device": name, "state": state_text(found)}
        line = f"would {verb} {name}, which is {state_text(found)}"
        show(tree, output, lambda out: out.print(cell(line), soft_wrap=True))
        return
    show(found, output, lambda out: out.print(cell(f"{name} is {state_text(found)}")))
