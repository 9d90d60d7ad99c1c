"""Curves of runs beside each other, as a picture: a panel for each metric. Pure."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Final, Literal

Curve = Sequence[tuple[int, float]]
"""Step and value."""
PANELS_MAX: Final = 12
_WIDTH, _HEIGHT, _DPI = 7.0, 2.6, 120


def plot(curves: Mapping[str, Mapping[str, Curve]], kind: Literal["svg", "png"] = "svg") -> bytes:
    """`curves`: by metric, by job; the first `PANELS_MAX` metrics are shown. The same curves give the
    same bytes.
    """
    from matplotlib import rc_context  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415  half a second

    shown = list(curves.items())[:PANELS_MAX]
    with rc_context({"svg.hashsalt": "hybridge", "font.size": 8}):
        figure = Figure((_WIDTH, _HEIGHT * max(1, len(shown))), layout="constrained")
        for number, (metric, by_job) in enumerate(shown, 1):
            axes = figure.add_subplot(len(shown), 1, number)
            for job, curve in by_job.items():
                if curve:
                    marker = "o" if len(curve) < 2 else None
                    axes.plot(*zip(*curve, strict=True), label=job, linewidth=1, marker=marker)
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
