"""`hybridge registry`: set one up, look at it, keep its keys, its log and its regions."""

from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.api_key import KeyFile
from cloud.cli.completion import models
from cloud.cli.output import Format, Output, facts, grid, moment, show, size
from cloud.cli.registry_init import init
from cloud.cli.registry_keys import keys
from cloud.cli.registry_log import log
from cloud.cli.registry_regions import promote, rejoin
from cloud.cli.registry_session import CODES, Code, DryRun, Registry, ask
from cloud.cli.registry_verify import verify

if TYPE_CHECKING:
    from cloud.registry.api.schemas import CollectAnswer, RegistryState
    from cloud.registry.client.client import RegistryClient
    from cloud.registry.documents import ReplicaState

registry = typer.Typer(
    no_args_is_help=True, help=f"Set up and look after a registry: keys, log, regions. {CODES}"
)
for _command in (init, log, promote, rejoin, verify):
    registry.command()(_command)
registry.add_typer(keys, name="keys")


@registry.command()
def status(
    *, registry: Registry = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """Say which registry answers, and whether it is home, a replica, or fenced off.

    Exit codes: 0 it takes what its role takes, 1 it is fenced off, its log forked, or it refuses, 2
    wrong usage, 3 it cannot be reached.
    """
    found = ask(registry, key_file, lambda asked: asked.state())
    show(found, output, lambda out: facts(out, found.name, _facts(found)))
    if found.role == "fenced" or found.region.state == "forked":
        raise typer.Exit(Code.REFUSED)


@registry.command()
def replicas(
    *, registry: Registry = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """List the replicas, and how far each said that it is.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached.
    """

    async def work(asked: "RegistryClient") -> "tuple[list[ReplicaState], int]":
        return await asked.replicas(), (await asked.state()).head.seq

    found, head = ask(registry, key_file, work)
    rows = (
        (
            one.name, one.url, one.epoch, one.seq, max(0, head - one.seq), one.artifacts_missing,
            len(one.running), moment(one.seen_at),
        )
        for one in found
    )  # fmt: skip
    columns = (
        "replica", "url", "epoch", "entry", "behind", "artifacts missing", "runners", "seen",
    )  # fmt: skip
    show(found, output, lambda out: grid(out, "Replicas", columns, rows))


@registry.command()
def runners(
    model: Annotated[
        str | None, typer.Argument(metavar="[MODEL]", help="Of it alone.", autocompletion=models)
    ] = None,
    *,
    registry: Registry = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """List the devices and workers, and what each said that it runs.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached.
    """
    found = ask(registry, key_file, lambda asked: asked.runners(model), model=model)
    rows = (
        (one.name, one.model, one.version, one.variant, one.state, moment(one.seen_at))
        for one in found
    )
    columns = ("runner", "model", "version", "variant", "state", "seen")
    show(found, output, lambda out: grid(out, "Runners", columns, rows))


@registry.command()
def gc(
    *,
    registry: Registry = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Remove artifacts that no kept version, data set, report, delta or replica needs.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the registry cannot be reached.
    """
    found = ask(registry, key_file, lambda asked: asked.collect(is_dry_run=dry_run))
    show(found, output, lambda out: out.print(_collected(found), soft_wrap=True))


def _facts(found: "RegistryState") -> tuple[tuple[str, object], ...]:
    head, region = found.head, found.region
    return (
        ("role", found.role), ("state", f"{region.state}: {region.why}" if region.why else region.state),
        ("home", found.home), ("takes changes", found.writable),
        ("why not", found.why_read_only), ("epoch", head.epoch), ("entries", head.seq),
        ("head", head.sha256), ("entries behind", found.behind),
        ("artifacts missing", region.artifacts_missing or None),
    )  # fmt: skip


def _collected(found: "CollectAnswer") -> str:
    verb = "would remove" if found.dry_run else "removed"
    return (
        f"{verb} {found.artifacts:,} artifacts and {found.uploads:,} unfinished uploads, "
        f"{size(found.bytes)}; {found.kept:,} are needed, {found.young:,} are too young to tell, "
        f"{found.busy:,} are in use"
    )
