"""Curves of several runs as a picture: one panel a metric."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

Curve = Sequence[tuple[int, float]]
"""Step and value."""
_COLOURS: Final = ("#3b82c4", "#c0392b", "#2a7f4f", "#e0a030", "#7d3c98", "#5d6d7e")
_PANELS_MAX: Final = 12


def write(curves: Mapping[str, Mapping[str, Curve]], path: Path) -> None:
    """`curves`: by metric, by job. Written to `path`, whose ending says how."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "train"  # the same curves give the same bytes
    from matplotlib.figure import Figure

    shown = dict(list(curves.items())[:_PANELS_MAX])
    figure = Figure(figsize=(8, 0.6 + 2.4 * len(shown)))
    panels = figure.subplots(len(shown), 1, squeeze=False)[:, 0]
    for axes, (metric, by_job) in zip(panels, shown.items(), strict=True):
        for number, (job, curve) in enumerate(by_job.items()):
            steps, values = [step for step, _ in curve], [value for _, value in curve]
            axes.plot(
                steps, values, color=_COLOURS[number % len(_COLOURS)], label=job,
                marker="o" if len(steps) < 2 else None,
            )  # fmt: skip
        axes.set_title(metric, fontsize=9)
        axes.set_xlabel("step", fontsize=7)
        axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
