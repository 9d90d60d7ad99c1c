"""Figures as SVG that stands in a page: no files, no scripts, the same bytes for the same numbers.

matplotlib, imported late and without pyplot: nothing global but its settings, set back at the end.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, Any

import numpy as np

from cloud.registry.evaluation.figures import ClassFigures, Measured, Quality

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLASSES_MAX = 20
_LABEL_MAX = 22
_MINE, _CURRENT, _FAINT = "#1f6feb", "#9aa4b2", "#d0d7de"
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none", "svg.hashsalt": "hybridge", "text.parse_math": False,
    "font.family": "sans-serif", "font.size": 9, "axes.spines.top": False,
    "axes.spines.right": False,
}  # fmt: skip


@contextmanager
def drawing() -> Iterator[None]:
    """Around all calls below."""
    import matplotlib as mpl  # noqa: PLC0415

    with mpl.rc_context(_SETTINGS):
        yield


def shown_label(text: str) -> str:
    """A class's name as a figure can hold it: its pusher chose it."""
    clean = "".join(letter if letter.isprintable() else "?" for letter in text)
    return clean if len(clean) <= _LABEL_MAX else f"{clean[: _LABEL_MAX - 1]}…"


def reliability(quality: Quality) -> str:
    """Accuracy against confidence by bin; bars are as faint as they hold few rows."""

    def draw(axes: "Axes") -> None:
        most = max(one.rows for one in quality.bins)
        axes.plot([0, 1], [0, 1], color=_CURRENT, linewidth=1, linestyle="--")
        for at, one in enumerate(quality.bins):
            if one.rows:
                left = at / len(quality.bins)
                axes.bar(left, one.accuracy, width=1 / len(quality.bins), align="edge",
                         color=_MINE, alpha=0.25 + 0.75 * one.rows / most, edgecolor="white")  # fmt: skip
                axes.plot(one.confidence, one.accuracy, "o", color="black", markersize=3)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")

    return _svg(draw, 4.2, 3.4)


def confusion(quality: Quality) -> str:
    """Rows are labels; shares of each row. The classes most often confused, where there are many."""
    counts = np.array(quality.confusion, float)
    off = counts - np.diag(np.diag(counts))
    shown = np.sort(np.argsort(-(off.sum(0) + off.sum(1)), kind="stable")[:CLASSES_MAX])
    names = [shown_label(quality.classes[at].label) for at in shown]
    shares = (counts / np.maximum(counts.sum(1, keepdims=True), 1))[np.ix_(shown, shown)]

    def draw(axes: "Axes") -> None:
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for (row, column), share in np.ndenumerate(shares):
            if share >= 0.005:
                axes.text(column, row, f"{share:.2f}".lstrip("0"), ha="center", va="center",
                          fontsize=6, color="white" if share > 0.5 else "black")  # fmt: skip
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        axes.set(xlabel="answer", ylabel="label")
        axes.spines[:].set_visible(False)

    side = 2.2 + 0.26 * len(names)
    return _svg(draw, side, side)


def classes(mine: Quality, current: Quality | None) -> str:
    """F1 by class, the worst first, beside the current release's."""
    ranked = sorted((one for one in mine.classes if one.f1 is not None), key=_f1)[:CLASSES_MAX]
    beside = {} if current is None else {one.label: one for one in current.classes}

    def draw(axes: "Axes") -> None:
        at = np.arange(len(ranked))
        axes.barh(at - 0.2, [_f1(one) for one in ranked], 0.38, color=_MINE, label="this version")
        if current is not None:
            others = [_f1(beside[one.label]) if one.label in beside else 0.0 for one in ranked]
            axes.barh(at + 0.2, others, 0.38, color=_CURRENT, label="current release")
            _legend(axes)
        axes.set_yticks(at, [f"{shown_label(one.label)} ({one.rows})" for one in ranked])
        axes.invert_yaxis()
        axes.set(xlim=(0, 1), xlabel="F1 (rows)")

    return _svg(draw, 4.8, 1.2 + 0.3 * len(ranked))


def robustness(mine: Measured, current: Measured | None) -> str:
    """Accuracy as it is and changed."""
    rows = _changes(mine)
    beside = {} if current is None else dict(_changes(current))

    def draw(axes: "Axes") -> None:
        at = np.arange(len(rows))
        axes.barh(at - 0.2, [share for _, share in rows], 0.38, color=_MINE, label="this version")
        if beside:
            others = [beside.get(name, 0.0) for name, _ in rows]
            axes.barh(at + 0.2, others, 0.38, color=_CURRENT, label="current release")
            _legend(axes)
        axes.set_yticks(at, [name for name, _ in rows])
        axes.invert_yaxis()
        axes.set(xlim=(0, 1), xlabel="accuracy")

    return _svg(draw, 4.8, 1.2 + 0.36 * len(rows))


def latency(mine: Measured, current: Measured | None) -> str:
    """Share of runs that took at most so long, to the 99th percentile."""

    def draw(axes: "Axes") -> None:
        shares = np.linspace(0, 1, 101)
        for measured, color, name in (
            (current, _CURRENT, "current release"), (mine, _MINE, "this version"),
        ):  # fmt: skip
            if measured is not None and measured.latency is not None:
                axes.plot(
                    measured.latency.quantiles_ms[:100], shares[:100], color=color, label=name
                )
        axes.axhline(0.95, color=_FAINT, linewidth=1)
        axes.set(ylim=(0, 1), xlabel="ms at batch 1", ylabel="share of runs")
        axes.set_xlim(left=0)
        _legend(axes)

    return _svg(draw, 4.8, 3.0)


def _legend(axes: "Axes") -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=7)


def _f1(one: ClassFigures) -> float:
    return one.f1 or 0.0


def _changes(measured: Measured) -> list[tuple[str, float]]:
    found = measured.robustness
    rows = [(one.name, one.accuracy) for one in found.shaken]
    if found.shaken:
        rows.insert(0, ("as it is", found.shaken[0].clean))
    if found.gradient is not None:
        rows.append(("random step", found.gradient.random))
        rows.append(("gradient step", found.gradient.stepped))
    return rows


def _svg(draw: Callable[["Axes"], None], width: float, height: float) -> str:
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), layout="constrained")
    draw(figure.subplots())
    text = StringIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(text, format="svg", transparent=True, metadata=metadata)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    # its fixed size goes, so that it shrinks with the page; the viewBox stays
    return re.sub(r'^<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", svg, count=1) + "\n"
