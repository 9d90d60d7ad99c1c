"""`hybridge registry log`: what happened, and that nobody altered it."""

import json
import re
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.api_key import KeyFile
from cloud.cli.output import Format, Output, cell, console, moment, say
from cloud.cli.registry_session import Registry, ask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cloud.registry.client.client import RegistryClient
    from cloud.registry.documents import Entry

_PAGE = 500
_WAIT_S = 30
_SHOWN = 160  # characters of a change in a table
_HASH = re.compile("[0-9a-f]{64}")
COLUMNS = ("entry", "at", "by", "what", "change")


def log(
    *,
    after: Annotated[int, typer.Option(min=0, help="Only entries after this one.")] = 0,
    limit: Annotated[
        int | None, typer.Option(min=1, help="So many entries at most. Default: all.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new ones as they come.")
    ] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check the hash chain here, from the first entry on.")
    ] = False,
    registry: Registry = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show the registry's log. With -o json, one entry a line.

    Exit codes: 0 done, 1 refused, or the chain does not hold, 2 wrong usage, 3 the registry cannot
    be reached.
    """
    seen = _Seen(output, after)

    async def work(asked: "RegistryClient") -> None:
        at = 0 if verify else after
        while limit is None or seen.count < limit:
            page = await asked.log(at, _PAGE, _WAIT_S if follow else 0)
            if verify:
                seen.check(page.entries)
            for entry in page.entries:
                at = entry.seq
                if entry.seq > after and (limit is None or seen.count < limit):
                    seen.print(entry)
            if not page.entries and not follow:
                return

    ask(registry, key_file, work, stopped="stopped")
    seen.end(is_verified=verify)


class _Seen:
    """What was printed and checked so far."""

    def __init__(self, output: Format, after: int) -> None:
        from cloud.registry.catalog.chain import EMPTY

        self.count = 0
        self._output = output
        self._after = after
        self._head = EMPTY
        self._out = console()

    def check(self, entries: "tuple[Entry, ...]") -> None:
        from cloud.registry.catalog.chain import verify_chain

        self._head = verify_chain(self._head, entries)

    def print(self, entry: "Entry") -> None:
        self.count += 1
        match self._output:
            case Format.JSON:
                typer.echo(entry.model_dump_json())
            case Format.YAML:
                import yaml

                typer.echo("---")
                typer.echo(yaml.safe_dump(entry.model_dump(mode="json"), sort_keys=False), nl=False)
            case Format.TABLE:
                self._out.print("  ".join(map(cell, row(entry))), soft_wrap=True)

    def end(self, *, is_verified: bool) -> None:
        if is_verified:
            head = self._head
            say(f"the chain holds up to entry {head.seq}, epoch {head.epoch}, sha256 {head.sha256}")


def row(entry: "Entry") -> tuple[object, ...]:
    """Of a table with `COLUMNS`; -o json has all of a change."""
    return entry.seq, moment(entry.at), entry.actor, entry.kind, _in_short(entry.change)


def _in_short(change: "Mapping[str, object]") -> str:
    """What says something in one line: no lists, no hashes."""
    said = (
        f"{name}={json.dumps(value, ensure_ascii=True)}"
        for name, value in sorted(change.items())
        if isinstance(value, str | int | float) and not _HASH.fullmatch(str(value))
    )
    text = " ".join(said)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
