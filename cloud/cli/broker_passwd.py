"""`hybridge broker passwd`: add, change and delete users of the broker's password file."""

import contextlib
import fcntl
import os
import secrets
import sys
import tempfile
from collections.abc import Callable
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
    from cloud.broker.access.passwords import check_username, with_user, without_user

    if delete and stdin:
        raise typer.BadParameter("--delete needs no password: leave --stdin out")
    where = str(file)
    if delete:
        _replace(file, lambda text: without_user(text, username, where))
        typer.echo(f"{file}: {username} deleted; SIGHUP makes a running broker read it")
        return
    check_username(username, "USERNAME")
    password = _password(username, stdin=stdin)
    salt = secrets.token_bytes(16)
    _replace(file, lambda text: with_user(text, username, password, salt, where))
    typer.echo(f"{file}: {username} set; SIGHUP makes a running broker read it")


def _password(username: str, *, stdin: bool) -> bytes:
    from cloud.broker.access.passwords import PASSWORD_BYTES_MAX

    if stdin:  # one byte and a line end more than may be: too long is said so, not cut
        return sys.stdin.buffer.readline(PASSWORD_BYTES_MAX + 3).rstrip(b"\r\n")
    asked = f"Password for {username}"
    return str(typer.prompt(asked, hide_input=True, confirmation_prompt=True)).encode()


def _replace(path: Path, edit: Callable[[str], str]) -> None:
    """Replace a file's text by what `edit` makes of it; a missing file counts as empty.

    Readers see all of the old or all of the new text. The new file has mode 0600 and, where this
    process may give it away, its predecessor's owner. Two who edit at once take turns. If `edit`
    raises, the file stays as it is.
    """
    from cloud.broker.access.files import read_text

    path = path.resolve()  # a link stays a link
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        before = path.stat() if path.exists() else None
        text = edit("" if before is None else read_text(path))
        number, name = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)  # mode 0600
        new = Path(name)
        try:
            with os.fdopen(number, "wb") as file:
                file.write(text.encode())
                file.flush()
                if before is not None:
                    with contextlib.suppress(PermissionError):
                        os.fchown(number, before.st_uid, before.st_gid)
                os.fsync(number)
            new.replace(path)
        except BaseException:
            new.unlink()
            raise
        os.fsync(folder)
    finally:
        os.close(folder)
