"""`hybridge device enrol`, `hybridge device token`: one-time tokens that devices enrol with."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.device_arguments import Label, changed_labels, labels_text
from cloud.cli.fleet_session import CODES, Fleet, KeyFile, ask
from cloud.cli.output import Format, Output, cell, grid, moment, say, show
from cloud.cli.registry_session import DryRun

if TYPE_CHECKING:
    from rich.console import Console

token = typer.Typer(no_args_is_help=True, help=f"List and revoke enrolment tokens. {CODES}")


def enrol(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[DEVICE]", help="Whom it is for. Default: whoever has it."),
    ] = None,
    *,
    label: Label = None,
    ttl: Annotated[
        str, typer.Option(metavar="TIME", help="The token is good for so long, once.")
    ] = "24h",
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="The fleet as the device sees it. Default: as it is asked."
        ),
    ] = None,
    ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="On the device: whom it believes in.")
    ] = None,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Make a one-time token, and print the command to run on the device: its key is made there.

    The token is shown this once; who has it can enrol one device.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    from cloud.cli.registry_session import ending
    from cloud.cli.rollout_words import seconds

    with ending():
        labels, ttl_s = changed_labels({}, label or ()), seconds(ttl, "--ttl")
    if not fleet:
        raise typer.BadParameter("name the fleet: --fleet URL, or HYBRIDGE_FLEET")
    if dry_run:
        tree = {"dry_run": True, "device": name, "labels": labels, "ttl_s": ttl_s}
        line = f"would make a token for {name or 'any device'}, good for {ttl}"
        show(tree, output, lambda out: out.print(cell(line), soft_wrap=True))
        return
    made = ask(fleet, key_file, lambda asked: asked.make_token(name, labels, ttl_s))
    command = enrol_command(url or fleet[0], made.token, ca)
    about = made.document

    def text(out: "Console") -> None:
        out.print(cell(command), soft_wrap=True)

    tree = {
        "token": made.token, "command": command, "document": about.model_dump(mode="json"),
    }  # fmt: skip
    show(tree, output, text)
    if output is Format.TABLE:
        whose = about.device or "one device, which names itself"
        say(f"run it on the device: good once, for {whose}, until {moment(about.expires_at)}")


def enrol_command(url: str, secret: str, ca: str | None) -> str:
    """What is to be run on the device, as a shell reads it."""
    words = ["hybridge-edge", "enrol", "--config", "agent.toml", "--url", url, "--token", secret]
    return shlex.join(words if ca is None else [*words, "--ca", ca])


@token.command(name="list")
def list_tokens(
    *, fleet: Fleet = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """List the enrolment tokens, without their secrets.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    found = ask(fleet, key_file, lambda asked: asked.tokens())
    rows = (
        (
            one.id, one.device or "any", labels_text(one.labels), one.made_by,
            moment(one.expires_at), moment(one.used_at), one.used_for,
        )
        for one in found
    )  # fmt: skip
    columns = ("token", "for", "labels", "made by", "expires", "used", "by")
    show(found, output, lambda out: grid(out, "Enrolment tokens", columns, rows))


@token.command()
def revoke(
    name: Annotated[str, typer.Argument(metavar="TOKEN", help="Its id, as `list` has it.")],
    *,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Take back a token that nobody has used.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 4 it is used.
    """
    if not dry_run:
        ask(fleet, key_file, lambda asked: asked.revoke_token(name))
    tree = {"dry_run": dry_run, "revoked": not dry_run, "token": name}
    line = f"would revoke token {name}" if dry_run else f"token {name} is worth nothing any more"
    show(tree, output, lambda out: out.print(cell(line), soft_wrap=True))
