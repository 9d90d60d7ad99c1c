"""What a command found, on stdout: a table for people, JSON or YAML for programs. Nothing else."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console
    from rich.table import Column

_PIPE_COLUMNS = 4000  # a line for `grep` is not broken


class Format(StrEnum):
    """Of stdout."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


Output = Annotated[
    Format,
    typer.Option("--output", "-o", help="A table for people; json (stable) or yaml for programs."),
]
Tree = Mapping[str, object] | Sequence[object]


def show(
    found: "BaseModel | Sequence[BaseModel] | Tree",
    form: Format,
    table: Callable[["Console"], None],
) -> None:
    """Print `found` as the user asked; `table` draws it for people."""
    if form is Format.TABLE:
        table(console())
        return
    print_tree(tree_of(found), form)


def print_tree(tree: object, form: Format) -> None:
    """As JSON or YAML."""
    if form is Format.JSON:
        typer.echo(json.dumps(tree, indent=2))
        return
    import yaml

    typer.echo(yaml.safe_dump(tree, sort_keys=False, allow_unicode=False, width=100), nl=False)


def tree_of(found: "BaseModel | Sequence[BaseModel] | Tree") -> object:
    """What JSON can hold; documents with all their members, in their order."""
    from pydantic import TypeAdapter

    return TypeAdapter(object).dump_python(found, mode="json")


def console() -> "Console":
    """For stdout: what is printed is shown as it is, never as markup."""
    from rich.console import Console

    # None: closed before this program started
    is_pipe = (sys.stdout is None or not sys.stdout.isatty()) and "COLUMNS" not in os.environ
    return Console(
        markup=False, highlight=False, emoji=False, width=_PIPE_COLUMNS if is_pipe else None
    )


def grid(
    out: "Console", title: str, columns: "Sequence[str | Column]", rows: Iterable[Sequence[object]]
) -> None:
    """A table, or "None." for one without rows."""
    from rich.table import Table

    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*map(cell, row))
    if table.row_count:
        out.print(table)
    else:
        out.print(f"{title}: none.")


def facts(out: "Console", title: str, rows: Iterable[tuple[str, object]]) -> None:
    """Names and values, one under the other; what is None is left out."""
    from rich.table import Table

    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in rows:
        if value is not None:
            table.add_row(cell(name), cell(value))
    out.print(table)


def cell(value: object) -> str:
    """For people. Text from elsewhere loses what would move a terminal's cursor."""
    from cloud.registry.client.answers import plain

    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.4g}"
        case _:
            return plain(str(value))


def moment(at: float | None) -> str:
    """Unix seconds as UTC."""
    from datetime import UTC, datetime

    if at is None:
        return ""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{at:.0f}"


def size(count: float) -> str:
    """Bytes, as `12.3 MB`."""
    for unit in ("bytes", "KB", "MB"):
        if abs(count) < 1000:
            return f"{count:.0f} bytes" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.2f} GB"


def say(line: str) -> None:
    """What is no result: to stderr."""
    from cloud.registry.client.answers import plain

    sys.stderr.write(plain(line) + "\n")
