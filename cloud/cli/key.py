"""`hybridge key add|list|remove`: the API keys that the gateway takes."""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.gateway.roles import GRANTS, Role

if TYPE_CHECKING:
    from cloud.gateway.key_file import KeyLine

key = typer.Typer(
    no_args_is_help=True,
    help="Add, list and remove API keys. A running hybridge-cloud reads the file again on SIGHUP. "
    + " ".join(f"{role}: {grant.may}." for role, grant in GRANTS.items()),
)
File = Annotated[Path, typer.Argument(help="The key file; `add` makes it if it is not there.")]
_AGAIN = "SIGHUP makes a running hybridge-cloud read it"


@key.command()
def add(
    file: File,
    name: Annotated[str, typer.Argument(help="Whose key it is, for logs and limits.")],
    role: Annotated[list[Role], typer.Option(help="What it may do; may repeat.")],
    rate: Annotated[
        str | None, typer.Option(help="As '100/second; 10000/hour'. Default: the gateway's.")
    ] = None,
    days: Annotated[
        float | None, typer.Option(min=0.001, max=36_500, help="It ends after these days.")
    ] = None,
    expires: Annotated[
        datetime | None,
        typer.Option(help="It ends then, UTC.", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%SZ"]),
    ] = None,
    body_bytes_max: Annotated[int | None, typer.Option(min=1, help="Of each request.")] = None,
    in_hand_max: Annotated[int | None, typer.Option(min=1, help="Requests at once.")] = None,
) -> None:
    """Make a key and print it, this once: the file keeps its SHA-256 only."""
    import secrets

    from pydantic import ValidationError

    from cloud.cli.replacing import replace_text
    from cloud.gateway.api_key import make_key
    from cloud.gateway.guarded_file import read_guarded
    from cloud.gateway.key_file import KeyLine, with_key
    from shared.config import in_words
    from shared.errors import Malformed

    if days is not None and expires is not None:
        raise typer.BadParameter("--days and --expires both say when it ends: give one")
    now = datetime.now(UTC).replace(microsecond=0)
    ends = expires.replace(tzinfo=UTC) if expires else now + timedelta(days=days) if days else None
    if ends is not None and ends <= now:
        raise typer.BadParameter(
            f"--expires {ends:%Y-%m-%dT%H:%M:%SZ} is over: name a time to come"
        )
    new = make_key(secrets.choice)
    try:
        line = KeyLine(
            id=new.id, name=name, roles=tuple(dict.fromkeys(role)), sha256=new.digest.hex(),
            created=now, expires=ends, rate=rate, body_bytes_max=body_bytes_max,
            in_hand_max=in_hand_max,
        )  # fmt: skip
    except ValidationError as error:
        raise Malformed(in_words(error)) from error
    replace_text(file, read_guarded, lambda text: with_key(text, line, str(file)))
    typer.echo(new.text)
    sys.stderr.write(f"{file}: key {new.id} of {name} added; it is not shown again. {_AGAIN}\n")


@key.command(name="list")
def list_keys(
    file: File, *, as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False
) -> None:
    """Show the keys: never what would let anyone in."""
    from cloud.gateway.guarded_file import read_guarded
    from cloud.gateway.key_file import parse

    found = list(parse(read_guarded(file), str(file)).values())
    if as_json:
        shown = [one.model_dump(mode="json", exclude={"sha256"}) for one in found]
        typer.echo(json.dumps(shown, indent=2))
        return
    _print(found, datetime.now(UTC))


@key.command()
def remove(
    file: File,
    id_or_name: Annotated[str, typer.Argument(help="As `list` shows it.")],
) -> None:
    """Take a key away. A name will do where it has one key."""
    from cloud.cli.replacing import replace_text
    from cloud.gateway.guarded_file import read_guarded
    from cloud.gateway.key_file import without_key

    gone: list[KeyLine] = []

    def edit(text: str) -> str:
        after, line = without_key(text, id_or_name, str(file))
        gone.append(line)
        return after

    replace_text(file, read_guarded, edit)
    typer.echo(f"{file}: key {gone[0].id} of {gone[0].name} removed; {_AGAIN}")


def _print(found: "list[KeyLine]", now: datetime) -> None:
    from rich.console import Console
    from rich.table import Table

    if not found:
        typer.echo("None.")
        return
    table = Table("id", "name", "roles", "rate", "expires", title="API keys", title_justify="left")
    for one in found:
        ends = "never" if one.expires is None else f"{one.expires:%Y-%m-%d %H:%M} UTC"
        if one.is_expired(now):
            ends += " (expired)"
        table.add_row(one.id, one.name, " ".join(one.roles), one.rate or "default", ends)
    Console(markup=False, highlight=False).print(table)
