"""`hybridge drift plot`: each scope's features as bars against the bounds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cloud.cli.drift_arguments import Device, Group, Model, scope_of
from cloud.cli.fleet_session import Fleet, KeyFile, ask
from cloud.cli.output import Format, Output, show

if TYPE_CHECKING:
    from cloud.monitoring.drift.documents import ScopeState

_SCOPES_MAX: Final = 24
_COLOURS: Final = {"as it was": "#2a7f4f", "drifts": "#e0a030", "far off": "#c0392b"}


def plot(
    file: Annotated[Path, typer.Argument(metavar="FILE.svg", help="Or .png, .pdf.")],
    *,
    group: Group = None,
    device: Device = None,
    model: Model = None,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Draw the population stability index of each feature, scope by scope. What was at FILE is
    replaced.

    Exit codes: 0 done, 1 refused (as where there is nothing to draw), 2 wrong usage, 3 the fleet
    cannot be reached.
    """
    if file.suffix not in {".svg", ".png", ".pdf"}:
        raise typer.BadParameter(f"{file.name[:100]}: name it .svg, .png or .pdf")
    kind, name = scope_of(group, device)
    found = ask(
        fleet, key_file, lambda asked: asked.drift.state(kind, name, model, _SCOPES_MAX),
        group=group, device=device,
    )  # fmt: skip
    from cloud.cli.registry_session import ending
    from shared.errors import Unknown

    drawn = [state for state in found.scopes if state.features]
    with ending():
        if not drawn:
            raise Unknown("no window has samples yet: look at hybridge drift status")
        _write(drawn, file)
    tree = {"file": str(file), "scopes": len(drawn)}
    show(tree, output, lambda out: out.print(f"{file}: {len(drawn)} scopes", soft_wrap=True))


def _write(states: "list[ScopeState]", path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "drift"  # the same states give the same bytes
    from matplotlib.figure import Figure

    from cloud.cli.drift_words import how_far, scope_text

    figure = Figure(figsize=(8, 0.6 + 1.9 * len(states)))
    panels = figure.subplots(len(states), 1, squeeze=False)[:, 0]
    for axes, state in zip(panels, states, strict=True):
        names = [one.feature for one in state.features]
        values = [max(one.psi, 0.0) for one in state.features]
        axes.barh(names, values, color=[_COLOURS[how_far(one)] for one in values])
        axes.invert_yaxis()
        for bound in (0.1, 0.25):
            axes.axvline(bound, color="#5d6d7e", linestyle="--", linewidth=0.8)
        axes.set_xlim(0, max(0.3, *values) * 1.05)
        scope = state.scope
        title = f"{scope_text(scope)}, {scope.model} {scope.version}: {state.samples:,} samples"
        axes.set_title(title, fontsize=9)
        axes.tick_params(labelsize=7)
    panels[-1].set_xlabel("population stability index", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
