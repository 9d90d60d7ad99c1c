"""Asking a person before something changes."""

import sys

import typer

from cloud.cli.registry_session import Code


def confirm(question: str, *, yes: bool) -> None:
    """Ask on stderr, unless `yes`. Anything but a yes ends the command: code 1."""
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise typer.BadParameter(f"{question} Nobody is here to answer: give --yes")
    if not typer.confirm(question, err=True):
        sys.stderr.write("nothing was changed\n")
        raise typer.Exit(Code.REFUSED)
