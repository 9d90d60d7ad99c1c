"""A rollout as a picture: devices by phase, and each criterion's interval against its bound."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cloud.cli.rollout_drawing import figure, stage_text, title
from cloud.cli.rollout_gauge import bound_of, counts
from cloud.rollouts.documents import RolloutView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Seen = tuple[float, RolloutView]
"""When it was seen (Unix seconds), and how it was."""
_COLOURS: Final = {
    "done": "#2a7f4f", "in flight": "#3b82c4", "failed": "#c0392b", "queued": "#d5d8dc",
    "left": "#e0a030",
}  # fmt: skip


def write(seen: Sequence[Seen], path: Path) -> None:
    """Draw it to `path`, whose ending says how: with several views, the evidence over time."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = "rollout"  # the same views give the same bytes
    from matplotlib.figure import Figure

    view = seen[-1][1]
    criteria = [one for one in view.criteria if one.cohort is not None]
    figure_ = Figure(figsize=(9, 1.2 + 0.35 * len(view.stages) + 1.6 * len(criteria)))
    figure_.suptitle(title(view), fontsize=10)
    heights = [1.0 + 0.35 * len(view.stages), *[1.6] * len(criteria)]
    axes = figure_.subplots(1 + len(criteria), 1, squeeze=False, height_ratios=heights)[:, 0]
    _stages(axes[0], view)
    for panel, criterion in zip(axes[1:], criteria, strict=True):
        _evidence(panel, criterion.text, seen)
    figure_.tight_layout()
    figure_.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _stages(axes: "Axes", view: RolloutView) -> None:
    names = [stage_text(stage) for stage in view.stages]
    start = [0] * len(names)
    for part, (label, colour) in enumerate(_COLOURS.items()):
        widths = [counts(stage)[part] for stage in view.stages]
        axes.barh(names, widths, left=start, color=colour, label=label)
        start = [a + b for a, b in zip(start, widths, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("devices")
    axes.legend(fontsize=7, ncols=5, loc="lower right")


def _evidence(axes: "Axes", text: str, seen: Sequence[Seen]) -> None:
    """Hours since the first view, and of each the point, the interval and the bound."""
    began = seen[0][0]
    hours, points, lows, highs, bounds = [], [], [], [], []
    for at, view in seen:
        one = next((c for c in view.criteria if c.text == text and c.cohort is not None), None)
        if one is None or one.cohort is None:
            continue
        hours.append((at - began) / 3600)
        points.append(one.cohort)
        lows.append(one.cohort if one.cohort_low is None else one.cohort_low)
        highs.append(one.cohort if one.cohort_high is None else one.cohort_high)
        bounds.append(bound_of(one))
    axes.fill_between(hours, lows, highs, color="#3b82c4", alpha=0.25, step="post")
    axes.errorbar(
        hours[-1:], points[-1:], fmt="o", color="#3b82c4",
        yerr=[[points[-1] - lows[-1]], [highs[-1] - points[-1]]],
    )  # fmt: skip
    axes.step(hours, points, where="post", color="#3b82c4")
    known = [(at, bound) for at, bound in zip(hours, bounds, strict=True) if bound is not None]
    if known:
        axes.step(*zip(*known, strict=True), where="post", color="#c0392b", linestyle="--")
        if len(known) == 1:
            axes.axhline(known[0][1], color="#c0392b", linestyle="--")
    verdict = next(c for c in seen[-1][1].criteria if c.text == text)
    axes.set_title(f"{text}: {verdict.verdict} at {figure(verdict, verdict.cohort)}", fontsize=8)
    axes.set_xlabel("hours watched", fontsize=7)
