"""`hybridge broker passwd`: add, change and delete users of the broker's password file."""

import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer


def passwd(
    file: Annotated[Path, typer.Argument(help="The password file; made if it is not there.")],
    username: Annotated[str, typer.Argument(help="The user to add, change or delete.")],
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the user.")] = False,
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Read the password from stdin's first line.")
    ] = False,
) -> None:
    """Set a user's password in the broker's password file, or delete the user.

    The password is asked for twice, or read from stdin; never an argument, which other users of
    the machine could see. A running broker reads the file again on SIGHUP.
    """
    from cloud.broker.access.files import read_text
    from cloud.broker.access.passwords import check_username, with_user, without_user
    from cloud.cli.replacing import replace_text

    if delete and stdin:
        raise typer.BadParameter("--delete needs no password: leave --stdin out")
    where = str(file)
    if delete:
        replace_text(file, read_text, lambda text: without_user(text, username, where))
        typer.echo(f"{file}: {username} deleted; SIGHUP makes a running broker read it")
        return
    check_username(username, "USERNAME")
    password = _password(username, stdin=stdin)
    salt = secrets.token_bytes(16)
    replace_text(file, read_text, lambda text: with_user(text, username, password, salt, where))
    typer.echo(f"{file}: {username} set; SIGHUP makes a running broker read it")


def _password(username: str, *, stdin: bool) -> bytes:
    from cloud.broker.access.passwords import PASSWORD_BYTES_MAX

    if stdin:  # one byte and a line end more than may be: too long is said so, not cut
        return sys.stdin.buffer.readline(PASSWORD_BYTES_MAX + 3).rstrip(b"\r\n")
    asked = f"Password for {username}"
    return str(typer.prompt(asked, hide_input=True, confirmation_prompt=True)).encode()
