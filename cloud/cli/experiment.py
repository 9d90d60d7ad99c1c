"""`hybridge experiment show`: versions of a cloud model side by side, from a worker's API."""

from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.api_key import KeyFile, read_key
from cloud.cli.output import Format, Output, grid, show

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.experiments.report import ArmReport, ExperimentReport

experiment = typer.Typer(no_args_is_help=True, help="Versions of cloud models side by side.")


@experiment.callback()
def _group() -> None:  # one command alone would lose its name
    pass


@experiment.command("show")
def show_(
    name: Annotated[str | None, typer.Argument(help="One experiment; all without it.")] = None,
    url: Annotated[str, typer.Option(help="A worker's API.")] = "http://127.0.0.1:8700",
    *,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Show each experiment's arms: who was placed where, and what came of it since the start."""
    from pydantic import ValidationError

    from cloud.capacity.asking import get
    from cloud.experiments.report import Reports
    from shared.errors import Malformed, Unknown

    try:
        found = Reports.model_validate_json(get(url, "/v1/experiments", read_key(key_file)))
    except ValidationError as error:
        raise Malformed(f"{url}/v1/experiments: no experiments there; name a worker") from error
    chosen = [one for one in found.experiments if name in (None, one.name)]
    if name is not None and not chosen:
        there = ", ".join(one.name for one in found.experiments) or "none"
        raise Unknown(f"no experiment {name[:64]!r} at {url}; there are {there}")
    show(chosen, output, lambda out: _draw(out, chosen))


def _draw(out: "Console", found: "list[ExperimentReport]") -> None:
    if not found:
        out.print("No experiments run there.")
    for one in found:
        figures = [_figures(arm) for arm in one.arms]
        rows = [(what, *(f[at][1] for f in figures)) for at, (what, _) in enumerate(figures[0])]
        title = f"{one.name} of {one.model} ({one.unplaced:,} calls named nobody)"
        grid(out, title, ("", *(arm.version for arm in one.arms)), rows)


def _figures(arm: "ArmReport") -> list[tuple[str, object]]:
    return [
        ("share of users and devices", f"{arm.share:.0%}"),
        ("calls", arm.calls),
        ("escalations", arm.escalations),
        ("rows", arm.rows),
        ("without an answer", arm.failed),
        ("answered by another version", arm.fell_back),
        ("mean confidence", arm.confidence),
        ("same label as the device", arm.edge_agreement),
        ("half within, ms", arm.p50_ms),
        ("95% within, ms", arm.p95_ms),
    ]
