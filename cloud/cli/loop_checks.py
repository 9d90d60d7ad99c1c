"""`hybridge loop check|checks`: training's preprocessing against serving's."""

from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.completion import models
from cloud.cli.learning_session import KeyFile, Learning, ask
from cloud.cli.output import Format, Output, grid, moment, show
from cloud.cli.registry_session import Code, DryRun

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.learning.client.client import LearningClient
    from cloud.learning.documents import FeatureCheck

Checked = Annotated[
    str, typer.Argument(metavar="MODEL", help="The cloud model.", autocompletion=models)
]


def checks(
    *, learning: Learning = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """List each model's newest check: the same samples through training and serving.

    Exit codes: 0 they agree, 1 one does not, or refused, 2 wrong usage, 3 the learning process cannot
    be reached.
    """
    _show(ask(learning, key_file, lambda asked: asked.loops.checks()), output)


def check(
    name: Checked, *, learning: Learning = None, key_file: KeyFile = None,
    dry_run: DryRun = False, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Check a cloud model on its newest samples, now.

    Exit codes: 0 they agree, 1 they do not, or refused, 2 wrong usage, 3 the learning process cannot
    be reached.
    """

    async def work(asked: "LearningClient") -> "list[FeatureCheck]":
        if dry_run:
            return [one for one in await asked.loops.checks() if one.model == name]
        return [await asked.loops.check(name)]

    found = ask(learning, key_file, work)
    if dry_run:
        tree = {"dry_run": True, "would": "check", "model": name}
        show(tree, output, lambda out: out.print(f"would check {name}"))
        return
    _show(found, output)


def _show(found: "list[FeatureCheck]", output: Format) -> None:
    def table(out: "Console") -> None:
        rows = (
            (
                one.model, one.version, one.agrees, one.samples, one.inputs_differ,
                one.answers_differ, one.largest, moment(one.at), one.words,
            )
            for one in found
        )  # fmt: skip
        columns = (
            "model", "version", "agrees", "samples", "inputs differ", "answers differ",
            "largest difference", "at", "words",
        )  # fmt: skip
        grid(out, "Checks", columns, rows)

    show(found, output, table)
    if not all(one.agrees for one in found):
        raise typer.Exit(Code.REFUSED)
