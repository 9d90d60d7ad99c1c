"""`hybridge rollout pause|resume|approve|skip|abort|undo|retry`: an operator's word."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from cloud.cli.fleet_session import Comment, Fleet, KeyFile, ask
from cloud.cli.output import Format, Output, cell, show
from cloud.cli.registry_session import Code, DryRun
from cloud.cli.rollout_arguments import Follow, Id

if TYPE_CHECKING:
    from cloud.fleet.client.client import FleetClient
    from cloud.fleet.client.rollouts import Verb
    from cloud.rollouts.documents import RolloutView


def pause(
    name: Id, *, comment: Comment, fleet: Fleet = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Order nothing more, and keep what was ordered.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 it does not run,
    or somebody was first.
    """
    _tell("pause", name, comment, fleet, key_file, dry_run=dry_run, output=output)


def resume(
    name: Id, *, comment: Comment, follow: Follow = False, fleet: Fleet = None,
    key_file: KeyFile = None, dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Go on with a paused rollout.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 it is not paused,
    or somebody was first.
    """
    _tell("resume", name, comment, fleet, key_file, follow, dry_run=dry_run, output=output)


def approve(
    name: Id, *, comment: Comment, follow: Follow = False, fleet: Fleet = None,
    key_file: KeyFile = None, dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Give a person's word for the stage that waits for it.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 nothing waits for
    it, or somebody was first.
    """
    _tell("approve", name, comment, fleet, key_file, follow, dry_run=dry_run, output=output)


def skip(
    name: Id, *, comment: Comment, fleet: Fleet = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """End the present stage's waiting; a violated criterion cannot be skipped.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 it cannot be
    skipped, or somebody was first.
    """
    _tell("skip", name, comment, fleet, key_file, dry_run=dry_run, output=output)


def abort(
    name: Id, *, comment: Comment, fleet: Fleet = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Stop for good, and leave every device as it is now. `undo` takes it back, too.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 it is over, or
    somebody was first.
    """
    _tell("abort", name, comment, fleet, key_file, dry_run=dry_run, output=output)


def undo(
    name: Id, *, comment: Comment, follow: Follow = False, fleet: Fleet = None,
    key_file: KeyFile = None, dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Stop, and order every device that took it back to what it had.

    Exit codes: 0 done (with -w: when its devices are back), 1 refused, 2 wrong usage, 3 the fleet
    cannot be reached, 4 there is nothing to undo, or somebody was first.
    """
    _tell("undo", name, comment, fleet, key_file, follow, dry_run=dry_run, output=output)


def retry(
    name: Id, *, comment: Comment, follow: Follow = False, fleet: Fleet = None,
    key_file: KeyFile = None, dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Order the devices that failed once more, and those only.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 its state does not
    allow it, or somebody was first.
    """
    _tell("retry", name, comment, fleet, key_file, follow, dry_run=dry_run, output=output)


def _tell(
    verb: "Verb", name: str, comment: str, fleet: list[str] | None, key_file: Path | None,
    follow: bool = False, *, dry_run: bool, output: Format,
) -> None:  # fmt: skip
    from cloud.rollouts.documents import RolloutStatus

    async def work(asked: "FleetClient") -> "RolloutView":
        seen = await asked.rollouts.get(name)
        if dry_run:
            return seen
        return await asked.rollouts.tell(verb, name, comment, seen.revision)

    found = ask(fleet, key_file, work, rollout=name)
    if follow and not dry_run:
        from cloud.cli.rollout_watching import watch

        ended = watch(fleet, key_file, name, output)
        is_as_asked = verb == "undo" and ended.status is RolloutStatus.ROLLED_BACK
        if ended.status is not RolloutStatus.SUCCEEDED and not is_as_asked:
            raise typer.Exit(Code.REFUSED)
        return
    _show(found, verb, output, dry_run=dry_run)


def _show(found: "RolloutView", verb: str, output: Format, *, dry_run: bool) -> None:
    from cloud.cli.rollout_drawing import state_text, summary

    if dry_run:
        line = f"would {verb} {found.id}, which is {state_text(found)}"
        tree = {"dry_run": True, "would": verb, "rollout": found.id, "status": str(found.status)}
        show(tree, output, lambda out: out.print(cell(line), soft_wrap=True))
        return
    show(found, output, lambda out: out.print(summary(found), soft_wrap=True))
