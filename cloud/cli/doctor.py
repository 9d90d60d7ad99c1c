"""`hybridge doctor`: which engines run here, and which variant of a bundle would be used."""

from pathlib import Path
from typing import Annotated

import typer


def doctor(
    bundle: Annotated[
        Path | None, typer.Argument(help="A bundle's folder or .hyb file to rank.")
    ] = None,
    engine: Annotated[
        str | None, typer.Option(help="Use this engine or variant and no other.")
    ] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Say what this machine can run, what would be chosen, and why nothing else.

    Exit codes: 0 something can run, 1 nothing can, 2 wrong usage.
    """
    from shared.doctor import as_json, render, report

    found = report(bundle, engine=engine)
    typer.echo(as_json(found) if json else render(found))
    raise typer.Exit(0 if found.healthy else 1)
