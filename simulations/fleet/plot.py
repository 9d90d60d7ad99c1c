"""A run as one SVG: stages and faults over time, devices by phase, the evidence with its intervals.

matplotlib is loaded late, without pyplot; the same bytes for the same run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cloud.rollouts.documents import CriterionView, Phase, RolloutView
from simulations.fleet.sampling import Samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SETTINGS: Final[dict[Any, Any]] = {
    "svg.fonttype": "none", "svg.hashsalt": "hybridge", "text.parse_math": False,
    "font.family": "sans-serif", "font.size": 8, "axes.spines.top": False,
    "axes.spines.right": False,
}  # fmt: skip
_STAGES: Final = {"shadow": "#9aa4b2", "canary": "#e3b341", "wave": "#1f6feb", "watch": "#2da44e"}
_GROUPS: Final[dict[str, tuple[tuple[Phase, ...], str]]] = {
    "done": ((Phase.DONE,), "#2da44e"),
    "committed": ((Phase.COMMITTED,), "#8ddb8c"),
    "on its way": (
        (Phase.ORDERED, Phase.ACCEPTED, Phase.DOWNLOADING, Phase.VERIFIED, Phase.STAGED, Phase.TRIAL),
        "#1f6feb",
    ),
    "failed": (
        (Phase.REJECTED, Phase.FAILED, Phase.ROLLED_BACK, Phase.TIMED_OUT, Phase.SILENT), "#cf222e",
    ),
    "undone": ((Phase.UNDOING, Phase.UNDONE), "#e3b341"),
    "left": ((Phase.LEFT,), "#57606a"),
    "queued": ((Phase.QUEUED,), "#d0d7de"),
}  # fmt: skip
_CRITERIA_MAX = 9


def draw(samples: Samples, title: str, path: Path) -> None:
    """Write the SVG. Times are hours since the start of the simulation."""
    import matplotlib as mpl  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    texts = _texts(samples.views)
    with mpl.rc_context(_SETTINGS):
        rows = 2 + len(texts)
        figure = Figure(figsize=(9, 3.2 + 1.1 * rows), layout="constrained")
        axes = figure.subplots(rows, 1, sharex=True, height_ratios=[1, 3, *[1.2] * len(texts)])
        figure.suptitle(title)
        _stages(axes[0], samples)
        _phases(axes[1], samples.views)
        for at, text in zip(axes[2:], texts, strict=True):
            _evidence(at, text, samples.views)
        axes[-1].set_xlabel("hours")
        figure.savefig(path, format="svg", metadata={"Date": None})


def _hours(views: Sequence[tuple[float, RolloutView]]) -> list[float]:
    return [at_s / 3600.0 for at_s, _ in views]


def _stages(axes: "Axes", samples: Samples) -> None:
    spans: list[tuple[float, float, str]] = []
    for at_s, view in samples.views:
        if not view.stages or view.started_at is None:
            continue
        kind: str = view.stages[min(view.stage, len(view.stages) - 1)].kind
        if view.undoing:
            kind = "undoing"
        elif view.ended_at is not None:
            kind = view.status.value
        if spans and spans[-1][2] == kind:
            spans[-1] = (spans[-1][0], at_s / 3600.0, kind)
        else:
            spans.append((spans[-1][1] if spans else at_s / 3600.0, at_s / 3600.0, kind))
    for begin, end, kind in spans:
        colour = _STAGES.get(kind, "#cf222e" if kind == "undoing" else "#57606a")
        axes.barh(0, end - begin, left=begin, height=0.8, color=colour, alpha=0.7)
        axes.text((begin + end) / 2, 0, kind, ha="center", va="center", clip_on=True)
    for fault in samples.faults:
        colour = "#cf222e" if "killed" in fault.kind else "#57606a"
        axes.plot(fault.at_s / 3600.0, 0.62, marker="v", color=colour, markersize=4)
    axes.set(yticks=[], ylim=(-0.5, 0.9), ylabel="stage, faults")


def _phases(axes: "Axes", views: Sequence[tuple[float, RolloutView]]) -> None:
    if not views:
        return
    rows = [
        [sum(view.phases.get(phase.value, 0) for phase in phases) for _, view in views]
        for phases, _ in _GROUPS.values()
    ]
    colours = [colour for _, colour in _GROUPS.values()]
    axes.stackplot(_hours(views), rows, labels=list(_GROUPS), colors=colours, alpha=0.85)
    axes.set(ylabel="devices")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, reverse=True)


def _texts(views: Sequence[tuple[float, RolloutView]]) -> list[str]:
    """Of the criteria that ever had data, in their order."""
    found: dict[str, None] = {}
    for _, view in views:
        for one in view.criteria:
            if one.cohort is not None:
                found[one.text] = None
    return list(found)[:_CRITERIA_MAX]


def _evidence(axes: "Axes", text: str, views: Sequence[tuple[float, RolloutView]]) -> None:
    points: list[tuple[float, CriterionView]] = [
        (at_s / 3600.0, one)
        for at_s, view in views
        for one in view.criteria
        if one.text == text and one.cohort is not None
    ]
    hours = [at for at, _ in points]
    axes.plot(hours, [one.cohort or 0.0 for _, one in points], color="#1f6feb", linewidth=1)
    bounded = [
        (at, one)
        for at, one in points
        if one.cohort_low is not None and one.cohort_high is not None
    ]
    if bounded:
        axes.fill_between(
            [at for at, _ in bounded],
            [one.cohort_low or 0.0 for _, one in bounded],
            [one.cohort_high or 0.0 for _, one in bounded],
            color="#1f6feb", alpha=0.2, linewidth=0,
        )  # fmt: skip
    control = [(at, one.control) for at, one in points if one.control is not None]
    if control:
        axes.plot(
            [at for at, _ in control],
            [value or 0.0 for _, value in control],
            color="#57606a",
            linewidth=1,
        )
    bad = [at for at, one in points if one.verdict == "violated"]
    axes.plot(bad, [0] * len(bad), "|", color="#cf222e")
    axes.set_title(text, loc="left", fontsize=7)
    top = max((one.cohort or 0.0 for _, one in points), default=1.0)
    axes.set_ylim(min(0.0, *(one.cohort or 0.0 for _, one in points)) - 1e-4, 2.5 * abs(top) + 1e-4)
