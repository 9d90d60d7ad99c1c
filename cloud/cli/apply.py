"""`hybridge apply`: a fleet as a file says; what would change is shown first."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cloud.cli.apply_changes import Applying, differing
from cloud.cli.fleet_confirm import confirm
from cloud.cli.fleet_session import Fleet, KeyFile, Yes, ask
from cloud.cli.output import Format, Output, cell, console, print_tree, say
from cloud.cli.registry_session import ending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cloud.cli.apply_diff import Change
    from cloud.cli.apply_file import Declared

_DIFFERS: Final = 2
_STYLES: Final = {"+": "green", "~": "yellow", "-": "red", "!": "magenta"}


def apply(
    *,
    file: Annotated[
        Path,
        typer.Option("--file", "-f", metavar="FILE.yaml", help="What is declared; - is stdin."),
    ],
    diff: Annotated[
        bool,
        typer.Option("--diff", "--dry-run", help="Show what would change; change nothing."),
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Delete the groups that the file does not name.")
    ] = False,
    yes: Yes = False,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Make groups, profiles, labels and rollouts as a file declares them: shows the difference first,
    asks, and does it. The second time there is nothing to do.

    A rollout that is declared is started, unless it runs, has succeeded or was stopped before; one
    that was stopped is started again only under another seed.

    Exit codes: 0 done, or nothing to do; 1 refused, or not confirmed; 2 wrong usage, or (with
    --diff) something would change, as `diff` has it; 3 the fleet cannot be reached; 4 somebody was
    first: run it again.
    """
    with ending():
        declared = _read(file)
    wanted = ask(fleet, key_file, lambda asked: differing(asked, declared, prune=prune))
    from cloud.cli.apply_diff import is_nothing

    nothing = is_nothing(wanted)
    if output is Format.TABLE or diff or nothing:
        _show(wanted, output)
    if nothing:
        say("nothing to do")
        return
    if diff:
        raise typer.Exit(_DIFFERS)
    confirm("Do this?", yes=yes)
    applying = Applying()
    try:
        ask(fleet, key_file, lambda asked: applying.all(asked, wanted))
    except typer.Exit:
        say(f"{applying.done} of {len(wanted)} are done; run it again to go on")
        raise
    if output is not Format.TABLE:
        _show(wanted, output, applying.started)
    say(f"{applying.done} of {len(wanted)} are done")
    for rollout in applying.started:
        say(f"watch it: hybridge rollout status {rollout} -w")


def _read(file: Path) -> "Declared":
    from cloud.cli.apply_file import BYTES_MAX, read

    if str(file) == "-":
        return read(sys.stdin.buffer.read(BYTES_MAX + 1), "stdin")
    with file.open("rb") as content:
        return read(content.read(BYTES_MAX + 1), str(file))


def _show(wanted: "Sequence[Change]", output: Format, started: "Sequence[str]" = ()) -> None:
    """A line for each change; for programs, the same as documents."""
    lines = [one.line for one in wanted]
    if output is not Format.TABLE:
        changes = [{"sign": sign, "change": text} for sign, text in lines]
        print_tree({"changes": changes, "started": list(started)}, output)
        return
    from rich.text import Text

    out = console()
    for sign, text in lines:
        out.print(Text(f"{sign} {cell(text)}", _STYLES[sign]), soft_wrap=True)
