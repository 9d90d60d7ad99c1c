"""`hybridge data-set push|list`: labelled data that versions are evaluated on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.api_key import KeyFile
from cloud.cli.completion import data_sets
from cloud.cli.output import Format, Output, grid, moment, show, size
from cloud.cli.progress import byte_bar
from cloud.cli.registry_session import CODES, DryRun, Registry, ask

if TYPE_CHECKING:
    from cloud.registry.client.client import RegistryClient
    from cloud.registry.client.push import Sent
    from cloud.registry.documents import DataSet

data_set = typer.Typer(
    no_args_is_help=True, help=f"Push and list the registry's evaluation data. {CODES}"
)


@data_set.command()
def push(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Its name.", autocompletion=data_sets)
    ],
    file: Annotated[
        Path,
        typer.Argument(help=".npz with inputs [N, ...], labels int64 [N] and maybe slices [N]."),
    ],
    *,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Add a file as the data set's next version; the newest one pushed again changes nothing.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached, 4 somebody added
    a version at the same time.
    """
    from cloud.registry.client.push import hashed

    sent = hashed(file)

    async def work(asked: "RegistryClient") -> "tuple[int, DataSet | None, bool]":
        from cloud.registry.client.push import push_data_set

        known = [one for one in await asked.data_sets() if one.name == name]
        newest = max(known, key=lambda one: one.version, default=None)
        if newest is not None and newest.file.sha256 == sent.sha256:
            return newest.version, newest, True
        number = 1 if newest is None else newest.version + 1
        if dry_run:
            return number, None, bool(await asked.missing([sent.sha256]))
        with byte_bar(f"{name} {number}", sent.size, output) as moved:
            return number, await push_data_set(asked, name, number, sent, moved), False

    number, added, was_there = ask(registry, key_file, work)
    if added is None:
        _say_would(name, number, sent, output, is_missing=was_there)
        return
    done = "is there already" if was_there else "added"
    line = f"{name} {number} {done}: {added.rows:,} rows, {size(added.file.bytes)}"
    show(added, output, lambda out: out.print(line, soft_wrap=True))


@data_set.command(name="list")
def list_data_sets(
    *, registry: Registry = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """List every version of every data set.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached.
    """
    found = ask(registry, key_file, lambda asked: asked.data_sets())
    rows = (
        (
            one.name, one.version, one.rows, one.file.bytes, moment(one.pushed_at), one.pushed_by,
            one.file.sha256[:16],
        )
        for one in found
    )  # fmt: skip
    columns = ("data set", "version", "rows", "bytes", "pushed", "by", "sha256")
    show(found, output, lambda out: grid(out, "Data sets", columns, rows))


def _say_would(name: str, number: int, sent: "Sent", output: Format, *, is_missing: bool) -> None:
    tree = {
        "dry_run": True, "data_set": name, "version": number, "bytes": sent.size,
        "missing_bytes": sent.size if is_missing else 0,
    }  # fmt: skip
    how = f"send {size(sent.size)}" if is_missing else "send nothing, as its file is there,"
    show(tree, output, lambda out: out.print(f"would {how} and add {name} {number}"))
