"""`hybridge registry verify`: everything that a registry keeps, proved on its machine."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.output import Format, Output, say, show, size
from cloud.cli.registry_session import Code, ending

if TYPE_CHECKING:
    from cloud.registry.artifacts.artifacts import Scrubbed
    from cloud.registry.config import RegistryConfig
    from cloud.registry.documents import Head

_SHOWN = 20


def verify(
    *,
    config: Annotated[
        Path,
        typer.Option("--config", metavar="registry.toml", help="Of the registry on this machine."),
    ],
    output: Output = Format.TABLE,
) -> None:
    """Prove the log, the tables that follow from it, and every artifact; it may run meanwhile.

    Reads everything once. An artifact that lost a bit is set aside, so that it can be stored anew: by
    a push of its bundle, or from another region by itself.

    Exit codes: 0 all is as it was written, 1 something is not, 2 wrong usage.
    """
    from cloud.registry.config import load

    with ending():
        head, scrubbed = _proved(load(config, {}))
    tree = {
        "entries": head.seq, "head": head.sha256, "artifacts": scrubbed.checked,
        "bytes": scrubbed.bytes, "corrupt": list(scrubbed.corrupt),
    }  # fmt: skip
    line = (
        f"log: {head.seq:,} entries, and the tables are what they come to; artifacts: "
        f"{scrubbed.checked:,} of {size(scrubbed.bytes)}, {len(scrubbed.corrupt)} corrupt"
    )
    show(tree, output, lambda out: out.print(line, soft_wrap=True))
    for sha256 in scrubbed.corrupt[:_SHOWN]:
        say(f"set aside: {sha256}")
    if scrubbed.corrupt:
        raise typer.Exit(Code.REFUSED)


def _proved(config: "RegistryConfig") -> "tuple[Head, Scrubbed]":
    from cloud.registry.artifacts.artifacts import Artifacts
    from cloud.registry.catalog.catalog import Catalog
    from cloud.registry.store.database import RegistryDatabase
    from shared.errors import Unknown

    if not config.state_dir.is_dir():  # it would be made
        raise Unknown(f"state_dir {config.state_dir}: no registry has run here; name its --config")
    database = RegistryDatabase(config.catalog_url)
    try:
        database.open()
        head = Catalog(database, config.catalog).verify()
    finally:
        database.close()
    return head, asyncio.run(Artifacts(config.artifacts, config.state_dir).scrub())
