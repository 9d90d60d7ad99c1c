"""Accuracy before and after, by shift, as an SVG."""

from pathlib import Path

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from cloud.demo.drift.verdict import Row

_WIDTH = 0.38


def draw(rows: list[Row], path: Path) -> None:
    """Bars of the edge's model alone, on images that no camera saw; the line is clean images."""
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.subplots()
    places = range(len(rows))
    axes.bar(
        [at - _WIDTH / 2 for at in places], [row.before for row in rows], _WIDTH, color="tab:orange",
        label="under the shift, before",
    )  # fmt: skip
    bars = axes.bar(
        [at + _WIDTH / 2 for at in places], [row.after for row in rows], _WIDTH, color="tab:blue",
        label="under the shift, after one cycle",
    )  # fmt: skip
    axes.bar_label(bars, [f"{row.regained:.0%}" for row in rows], fontsize=9)
    axes.axhline(rows[0].clean_before, color="0.5", linestyle=":", label="clean images, before")
    axes.set_xticks(list(places), [row.kind for row in rows], fontsize=9)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("accuracy of the edge model alone")
    axes.set_title("What one cycle of the loop regains (above the bars: share of what was lost)")
    axes.legend(loc="lower right", fontsize=9)
    figure.savefig(path, format="svg", metadata={"Date": None})
