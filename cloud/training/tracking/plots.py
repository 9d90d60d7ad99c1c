"""Curves of runs beside each other, as a picture."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Final, Literal

from cloud.training.documents import Point

_WIDTH, _HEIGHT, _DPI = 7.0, 2.6, 120
PANELS_MAX: Final = 12


def plot(
    curves: Mapping[str, Sequence[Point]],
    metrics: Sequence[str],
    kind: Literal["svg", "png"] = "svg",
) -> bytes:
    """A panel for each metric with a line for each run, by name. The same curves give the same bytes."""
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415  half a second

    shown = list(metrics)[:PANELS_MAX]
    with rc_context({"svg.hashsalt": "hybridge", "font.size": 8}):
        figure = Figure((_WIDTH, _HEIGHT * max(1, len(shown))), layout="constrained")
        for number, metric in enumerate(shown, 1):
            axes = figure.add_subplot(len(shown), 1, number)
            for name, points in curves.items():
                line = [(one.step, one.value) for one in points if one.metric == metric]
                if line:
                    axes.plot(*zip(*line, strict=True), label=name, linewidth=1)
            axes.set_ylabel(metric)
            axes.set_xlabel("step")
            axes.grid(alpha=0.3)
            if axes.lines:
                axes.legend(loc="best")
        out = BytesIO()
        figure.savefig(
            out,
            format=kind,
            dpi=_DPI,
            metadata={"Date": None} if kind == "svg" else {"Software": None},
        )
    return out.getvalue()
