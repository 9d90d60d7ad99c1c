"""`hybridge model`: bundles as folders and as `.hyb` files here, and what the registry does with them
(`model_*.py`).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.model_changes import approve, delete, evaluate, gate, reject
from cloud.cli.model_diff import diff
from cloud.cli.model_push import push
from cloud.cli.model_reading import checklist, get, history, list_models
from cloud.cli.model_release import release, retire
from cloud.cli.model_signature import check_release, signature_text, tree_of_signature
from cloud.cli.output import Format, Output, print_tree, show
from cloud.cli.registry_session import CODES

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from shared.bundle.reader import Bundle

model = typer.Typer(
    no_args_is_help=True,
    help="Pack, unpack, inspect and verify model bundles; push them to a registry, have them "
    f"evaluated, approve and release them. {CODES}",
)
model.command(name="list")(list_models)
for _command in (
    push, get, history, diff, gate, evaluate, approve, reject, checklist, release, retire, delete,
):  # fmt: skip
    model.command()(_command)

BundlePath = Annotated[Path, typer.Argument(help="A bundle's folder or .hyb file.")]


@model.command()
def pack(
    folder: Annotated[Path, typer.Argument(help="The bundle's folder.")],
    archive: Annotated[Path | None, typer.Argument(help="Default: NAME-VERSION.hyb here.")] = None,
) -> None:
    """Verify a bundle's folder and write it as one .hyb file: same content, same bytes."""
    from shared.bundle.reader import open_bundle
    from shared.bundle.writer import pack as pack_bundle

    if archive is None:
        manifest = open_bundle(folder).manifest
        archive = Path(f"{manifest.name}-{manifest.version}.hyb")
    bundle = pack_bundle(folder, archive)
    typer.echo(f"{archive}: {_title(bundle)}, {archive.stat().st_size:,} bytes")


@model.command()
def unpack(
    archive: Annotated[Path, typer.Argument(help="The .hyb file.")],
    folder: Annotated[Path, typer.Argument(help="The folder to make; it must not exist.")],
) -> None:
    """Verify a .hyb file and write it as a folder, all of it or nothing."""
    from shared.bundle.writer import unpack as unpack_bundle

    typer.echo(f"{folder}: {_title(unpack_bundle(archive, folder))}")


@model.command()
def inspect(bundle: BundlePath, *, output: Output = Format.TABLE) -> None:
    """Show what a bundle says about itself, once its files have been checked."""
    from shared.bundle.reader import open_bundle

    opened = open_bundle(bundle)
    show(opened.manifest, output, lambda out: _show_all(out, opened))


@model.command()
def verify(
    bundle: BundlePath,
    engine: Annotated[str | None, typer.Option(help="Require this engine or variant.")] = None,
    *,
    root: Annotated[
        Path | None,
        typer.Option(metavar="root.json", help="Also require a release signed under this root."),
    ] = None,
    signature: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Default: NAME.sig.json beside the bundle.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Check schema, hashes and golden samples, then run the golden samples on this machine.

    With --root also that the keys appointed under this root released it: offline, by a signature
    that `hybridge model get --out` put beside it.

    Exit codes: 0 at least one variant runs and agrees, 1 refused, 2 wrong usage.
    """
    from shared.bundle.reader import open_bundle
    from shared.engines.known import known_engines
    from shared.engines.ranking import choose
    from shared.errors import HybridgeError

    if signature is not None and root is None:
        raise typer.BadParameter("--signature is checked against a root: give --root, too")
    try:
        opened = open_bundle(bundle)
        signed = None if root is None else check_release(opened, bundle, root, signature)
        choice = choose(opened, known_engines(), wanted=engine)
    except HybridgeError as error:
        if output is Format.TABLE:
            raise
        print_tree({"ok": False, "error": str(error)}, output)
        raise typer.Exit(1) from None
    choice.session.close()
    found: dict[str, object] = {
        "ok": True, "chosen": choice.variant.key,
        "variants": {verdict.variant.key: verdict.reason for verdict in choice.verdicts},
    }  # fmt: skip
    if signed is not None:
        found["signed"] = tree_of_signature(signed)

    def lines(out: "Console") -> None:
        out.print(f"{bundle}: {_title(opened)} checks out", soft_wrap=True)
        if signed is not None:
            out.print(f"  {signature_text(signed)}", soft_wrap=True)
        for verdict in choice.verdicts:
            mark = "+" if verdict.parity is not None and verdict.parity.passes else "-"
            parity = f"; {verdict.parity}" if mark == "+" else ""
            out.print(
                f"  {mark} {verdict.variant.key:<20} {verdict.reason}{parity}", soft_wrap=True
            )

    show(found, output, lines)


def _show_all(out: "Console", bundle: "Bundle") -> None:
    from rich.markdown import Markdown

    for table in (_facts(bundle), _variants(bundle), _thresholds(bundle)):
        if table.row_count:
            out.print(table)
    out.print(Markdown(bundle.read(bundle.manifest.card).decode(errors="replace")))


def _title(bundle: "Bundle") -> str:
    return f"{bundle.manifest.name} {bundle.manifest.version}"


def _facts(bundle: "Bundle") -> "Table":
    from rich.table import Table

    manifest = bundle.manifest
    table = Table(title=_title(bundle), show_header=False, title_justify="left")
    for kind, tensors in (("input", manifest.inputs), ("output", manifest.outputs)):
        for tensor in tensors:
            sizes = ", ".join(["N", *map(str, tensor.shape)])
            table.add_row(kind, f"{tensor.name} {tensor.dtype}[{sizes}]")
    table.add_row("labels", ", ".join(manifest.labels))
    if manifest.answers_for:
        table.add_row("answers for", ", ".join(manifest.answers_for))
    table.add_row("temperature", f"{manifest.calibration.temperature:g}")
    table.add_row("golden samples", str(len(bundle.golden.inputs)))
    table.add_row("payload", manifest.payload.codec)
    table.add_row("data set", manifest.lineage.data_set)
    table.add_row("code", manifest.lineage.code_version)
    for name, value in manifest.lineage.metrics.items():
        table.add_row(name, f"{value:g}")
    return table


def _variants(bundle: "Bundle") -> "Table":
    from rich.table import Table

    table = Table("variant", "file", "bytes", "needs", title="Variants", title_justify="left")
    for variant in bundle.manifest.variants:
        needs = ", ".join(f"{name}{accepted}" for name, accepted in variant.runtime.items())
        table.add_row(variant.key, variant.file.path, f"{variant.file.bytes:,}", needs)
    return table


def _thresholds(bundle: "Bundle") -> "Table":
    from rich.table import Table

    table = Table(
        "threshold", "below", "escalated", "hybrid accuracy", "guarantee",
        title="Thresholds", title_justify="left",
    )  # fmt: skip
    calibration = bundle.manifest.calibration
    for threshold in calibration.thresholds:
        is_default = threshold.name == calibration.default_threshold
        table.add_row(
            threshold.name + (" (default)" if is_default else ""),
            f"{threshold.confidence_min:.4f}",
            f"{threshold.escalated_share:.1%}",
            f"{threshold.hybrid_accuracy:.2%}",
            threshold.guarantee.statement if threshold.guarantee else "none",
        )
    return table
