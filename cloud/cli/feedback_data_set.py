"""`hybridge feedback data-set plan|build|list|get|delete`: what a model is to learn from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.feedback_data_set_spec import (
    CloudModel,
    Confidence,
    Devices,
    HalfLife,
    Holdout,
    Model,
    Reasons,
    Rows,
    Seed,
    Since,
    Sites,
    SourceMin,
    SpecFile,
    Until,
    Versions,
    spec_from,
)
from cloud.cli.fleet_confirm import confirm
from cloud.cli.fleet_session import Yes
from cloud.cli.learning_completion import feedback_sets
from cloud.cli.learning_session import CODES, KeyFile, Learning, ask
from cloud.cli.output import Format, Output, facts, grid, moment, say, show, size
from cloud.cli.progress import byte_bar
from cloud.cli.registry_session import Code, DryRun

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.feedback.documents import DataSetPlan, DataSetVersion
    from cloud.learning.client.client import LearningClient

data_set = typer.Typer(
    no_args_is_help=True,
    help=f"Make data sets of what devices sent back; none ever changes. {CODES}",
)
SetName = Annotated[
    str, typer.Argument(metavar="NAME", help="Its name.", autocompletion=feedback_sets)
]
Number = Annotated[
    int | None, typer.Argument(metavar="[N]", min=1, help="Its version. Default: the newest.")
]


@data_set.command()
def plan(
    *,
    model: Model = None,
    spec: SpecFile = None,
    since: Since = None,
    until: Until = None,
    version: Versions = None,
    device: Devices = None,
    site: Sites = None,
    reason: Reasons = None,
    source_min: SourceMin = None,
    cloud_model: CloudModel = None,
    confidence_min: Confidence = None,
    rows: Rows = None,
    half_life: HalfLife = None,
    holdout: Holdout = None,
    seed: Seed = None,
    learning: Learning = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show what a data set would hold: rows by class and site, what is left out, which devices flood.

    Exit codes: 0 done, 1 refused (as one that would be empty), 2 wrong usage, 3 the learning process
    cannot be reached.
    """
    wanted = spec_from(
        spec, model, since, until, version, device, site, reason, source_min, cloud_model,
        confidence_min, rows, half_life, holdout, seed,
    )  # fmt: skip
    found = ask(learning, key_file, lambda asked: asked.data_sets.plan(wanted))
    show(found, output, lambda out: _draw_plan(out, f"A data set of {wanted.model}", found))
    if found.refused:
        raise typer.Exit(Code.REFUSED)


@data_set.command()
def build(
    name: SetName,
    *,
    model: Model = None,
    spec: SpecFile = None,
    since: Since = None,
    until: Until = None,
    version: Versions = None,
    device: Devices = None,
    site: Sites = None,
    reason: Reasons = None,
    source_min: SourceMin = None,
    cloud_model: CloudModel = None,
    confidence_min: Confidence = None,
    rows: Rows = None,
    half_life: HalfLife = None,
    holdout: Holdout = None,
    seed: Seed = None,
    learning: Learning = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Make the next version of a data set. The same store and options give the same content.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached, 4 it would
    be empty, or of a single class.
    """
    wanted = spec_from(
        spec, model, since, until, version, device, site, reason, source_min, cloud_model,
        confidence_min, rows, half_life, holdout, seed,
    )  # fmt: skip
    if dry_run:
        found = ask(learning, key_file, lambda asked: asked.data_sets.plan(wanted))
        tree = {
            "dry_run": True, "would": "build", "data_set": name,
            "plan": found.model_dump(mode="json"),
        }  # fmt: skip
        show(tree, output, lambda out: _draw_plan(out, f"{name} would hold", found))
        if found.refused:
            raise typer.Exit(Code.REFUSED)
        return
    made = ask(learning, key_file, lambda asked: asked.data_sets.build(name, wanted))
    show(made, output, lambda out: _draw(out, made))
    say(f"train on it: hybridge train submit --finetune MODEL@V --data-set {name}@{made.number}")


@data_set.command(name="list")
def list_data_sets(
    *, learning: Learning = None, key_file: KeyFile = None, output: Output = Format.TABLE
) -> None:
    """List every version of every data set.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    found = ask(learning, key_file, lambda asked: asked.data_sets.all())
    rows = (
        (
            one.name, one.number, one.spec.model, one.rows, one.holdout_rows, one.classes,
            one.devices, size(one.bytes), moment(one.made_at), one.made_by, one.sha256[:16],
        )
        for one in found
    )  # fmt: skip
    columns = (
        "data set", "version", "model", "rows", "holdout", "classes", "devices", "size", "made",
        "by", "sha256",
    )  # fmt: skip
    show(found, output, lambda out: grid(out, "Data sets", columns, rows))


@data_set.command()
def get(
    name: SetName,
    number: Number = None,
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Write its file there, too.")
    ] = None,
    learning: Learning = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show a version of a data set; with --out, fetch it. What was at FILE is replaced.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the learning process cannot be reached.
    """
    if out is not None and out.suffix != ".npz":
        raise typer.BadParameter(f"--out {str(out)[:200]}: name it .npz")

    async def work(asked: "LearningClient") -> "DataSetVersion":
        found = await asked.data_sets.get(name, number)
        if out is not None:
            with byte_bar(f"{name} {found.number}", found.bytes, output) as moved:
                await asked.data_sets.fetch(found, out, moved)
        return found

    found = ask(learning, key_file, work, data_set=name)
    show(found, output, lambda console: _draw(console, found))
    if out is not None:
        say(f"{out}: {name} {found.number}, {size(found.bytes)}")


@data_set.command()
def delete(
    name: SetName,
    number: Annotated[int, typer.Argument(metavar="N", min=1, help="Its version.")],
    *,
    comment: Annotated[
        str, typer.Option("--comment", "-m", help="Why; stays in the store's log.")
    ] = "",
    yes: Yes = False,
    learning: Learning = None,
    key_file: KeyFile = None,
    dry_run: DryRun = False,
    output: Output = Format.TABLE,
) -> None:
    """Delete a version of a data set that no job and no cycle has yet to read; jobs that were trained on
    it keep its hash.

    Exit codes: 0 done, 1 refused, or not confirmed, 2 wrong usage, 3 the learning process cannot be
    reached, 4 a job or a cycle needs it.
    """
    found = ask(learning, key_file, lambda asked: asked.data_sets.get(name, number), data_set=name)
    what = f"{name} {number}: {found.rows:,} rows, {size(found.bytes)}"
    if dry_run:
        tree = {"dry_run": True, "would": "delete", "data_set": name, "version": number}
        show(tree, output, lambda out: out.print(f"would delete {what}"))
        return
    confirm(f"Delete {what}?", yes=yes)
    ask(learning, key_file, lambda asked: asked.data_sets.delete(name, number, comment))
    tree = {"deleted": name, "version": number}
    show(tree, output, lambda out: out.print(f"deleted {what}"))


def _draw(out: "Console", found: "DataSetVersion") -> None:
    facts(
        out, f"{found.name} {found.number}",
        [
            ("model", found.spec.model), ("classes", found.classes), *_content(found),
            ("sha256", found.sha256), ("made", f"{moment(found.made_at)} by {found.made_by}"),
        ],
    )  # fmt: skip


def _draw_plan(out: "Console", title: str, found: "DataSetPlan") -> None:
    facts(out, title, [*_content(found), ("would be refused", found.refused or None)])


def _content(found: "DataSetVersion | DataSetPlan") -> list[tuple[str, object]]:
    return [
        ("rows", found.rows), ("holdout", found.holdout_rows),
        ("rows by label", ", ".join(map(str, found.per_class))),
        ("by site", _counts(found.per_site)), ("devices", found.devices),
        ("by source", _counts({str(one): count for one, count in found.per_source.items()})),
        ("left out", _counts(found.excluded)),
        *(
            (f"{one.device} floods label {one.label}", f"{one.dropped} of {one.rows} dropped")
            for one in found.flooding
        ),
        ("size", size(found.bytes)),
    ]  # fmt: skip


def _counts(found: dict[str, int]) -> str | None:
    return ", ".join(f"{name or 'none'} {count}" for name, count in found.items()) or None
