"""Accuracy against escalated share, as a PNG."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from cloud.demo.verdict import Verdict


def draw(verdict: Verdict, path: Path) -> None:
    """Both ends, the confidence curve, the oracle's, and the point that was run."""
    curve, hybrid = verdict.curve, verdict.hybrid
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot(
        curve.share, curve.oracle, color="0.6", linestyle=":", label="oracle: knows who is right"
    )
    axes.plot(
        curve.share, curve.accuracy, color="tab:blue", label="least confident first, cloud's answer"
    )
    axes.axhline(verdict.cloud.accuracy, color="0.8", linewidth=0.8, zorder=0)
    ends = (
        (0.0, verdict.edge.accuracy, "s", "tab:orange", f"edge only {verdict.edge.accuracy:.2%}"),
        (1.0, verdict.cloud.accuracy, "D", "tab:green", f"cloud only {verdict.cloud.accuracy:.2%}"),
        (
            hybrid.escalated, hybrid.accuracy, "o", "tab:red",
            f"hybrid as run {hybrid.accuracy:.2%}, {hybrid.escalated:.1%} escalated",
        ),
    )  # fmt: skip
    for x, y, marker, color, label in ends:
        axes.plot([x], [y], marker, color=color, markersize=9, label=label, zorder=3, clip_on=False)
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of samples escalated to the cloud")
    axes.set_ylabel("accuracy")
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
    axes.set_title(f"Hybridge on {len(curve.share) - 1:,} Fashion-MNIST test images")
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right", fontsize=9)
    figure.savefig(path, dpi=130)
